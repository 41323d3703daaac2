/** The form that starts a load or a sweep; its values stay in the address, and the same load is shown as a command. */
import { Button, SegmentedControl, TextInput } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { useAllowed } from '../../ui/allowed';
import { Problem } from '../../ui/Notes';
import { Command } from './Command';
import { Content, Limits, More, Schedule } from './Fields';
import {
  bodyOf,
  DEFAULTS,
  differing,
  type Form,
  missing,
  repeatsBodyOf,
  sweepBodyOf,
  type Traced,
  withPreset,
} from './form';
import { useRepeats, useStart, useSweep } from './queries';

const PRESETS = {
  '': 'By hand',
  quick: 'Ten seconds; not for publication.',
  official:
    "MLPerf's rules, at least 600 s. At a rate, and of conversations: 662 requests of Poisson arrivals, p99 of TTFT and TPOT certainly kept. One stream: 64 requests, p90 certified. Eight streams: 662 queries, p99 certified. As a batch: 24,576 requests.",
  vlm: 'official, with an image of 512x512 to 1024x1024 and 256 words in every request, and 12 s as limit of the latency.',
} as const;
const MODES: Record<Form['mode'], string> = {
  rate: 'Scenario server: requests are sent at their instants, whether or not earlier ones are answered.',
  concurrency:
    'Scenario multi_stream: each stream sends its next request when it has its answer; single_stream with one.',
  batch: 'Scenario offline: all requests are there at the start, and as many as you say are in flight.',
  talks: 'Scenario interactive: each question is sent with the earlier ones and their answers.',
  trace: 'Scenario server: requests are sent at the times of a file.',
};
/** Axis of a sweep → the column of its runs. */
const AXES = { rate: 'spec.scenario.arrivals.rate_per_s', concurrency: 'spec.scenario.in_flight' } as const;

export function LoadForm({ given }: { given: Partial<Form> }) {
  const navigate = useNavigate({ from: '/load' });
  const start = useStart();
  const sweep = useSweep();
  const repeat = useRepeats();
  const mayStart = useAllowed('run:write');
  const [form, setForm] = useState<Form>({ ...DEFAULTS, ...given });
  const [trace, setTrace] = useState<readonly Traced[]>([]);
  const set = (change: Partial<Form>) => {
    const next = { ...form, ...change };
    setForm(next);
    void navigate({ search: differing(next), replace: true, resetScroll: false });
  };
  const choose = (mode: Form['mode']) =>
    set(mode === 'trace' ? { mode, preset: '', sweep: '' } : withPreset({ ...form, mode, sweep: '' }, form.preset));
  const lacks = missing(form, trace);
  const swept = sweepBodyOf(form);
  const repeated = repeatsBodyOf(form, trace);
  const count = swept?.values.length ?? repeated?.repeats ?? 1;
  const error = start.error ?? sweep.error ?? repeat.error;
  const submit = () => {
    if (repeated !== undefined) {
      repeat.mutate(repeated, {
        onSuccess: ({ id }) => void navigate({ to: '/experiments/$id', params: { id } }),
      });
    } else if (swept === undefined) {
      start.mutate(bodyOf(form, trace), {
        onSuccess: ({ id }) => void navigate({ to: '/load/$id', params: { id } }),
      });
    } else {
      const search = { axis: AXES[swept.axis], effect: 'latency_p99_ms' };
      sweep.mutate(swept, {
        onSuccess: ({ id }) => void navigate({ to: '/experiments/$id', params: { id }, search }),
      });
    }
  };
  return (
    <form
      className="stack"
      aria-label="New load"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <div className="load-fields wide">
        <TextInput
          label="Endpoint"
          description="Base URL of an OpenAI-compatible API, as the workers reach it"
          placeholder="http://127.0.0.1:8000/v1"
          value={form.url}
          onChange={(event) => set({ url: event.currentTarget.value })}
          size="xs"
          maxLength={2000}
          required
        />
        <TextInput
          label="Model"
          description="Its name at the endpoint"
          value={form.model}
          onChange={(event) => set({ model: event.currentTarget.value })}
          size="xs"
          maxLength={200}
          required
        />
      </div>
      <div className="stack tight">
        <SegmentedControl
          aria-label="Preset"
          size="xs"
          className="load-choice"
          value={form.preset}
          onChange={(preset) => set(withPreset(form, preset as Form['preset']))}
          data={Object.keys(PRESETS).map((value) => ({ value, label: value || PRESETS[''] }))}
        />
        {form.preset ? <p className="sub">{PRESETS[form.preset]}</p> : null}
      </div>
      <SegmentedControl
        aria-label="How requests are sent"
        size="xs"
        className="load-choice"
        value={form.mode}
        onChange={(mode) => choose(mode as Form['mode'])}
        data={[
          { value: 'rate', label: 'At a rate' },
          { value: 'concurrency', label: 'In streams' },
          { value: 'batch', label: 'As a batch' },
          { value: 'talks', label: 'In conversations' },
          { value: 'trace', label: 'As a trace' },
        ]}
      />
      <p className="sub">{MODES[form.mode]}</p>
      <Schedule form={form} set={set} trace={trace} setTrace={setTrace} />
      <Content form={form} set={set} />
      <Limits form={form} set={set} />
      <More form={form} set={set} />
      <Command form={form} set={set} />
      {error ? <Problem error={error} /> : null}
      <div className="filters">
        <Button
          type="submit"
          size="xs"
          loading={start.isPending || sweep.isPending || repeat.isPending}
          disabled={lacks !== undefined || !mayStart}
        >
          {count === 1 ? 'Start the load' : `Start ${count} loads`}
        </Button>
        <span className="sub">{mayStart ? lacks : 'Your key may not start runs.'}</span>
      </div>
    </form>
  );
}
