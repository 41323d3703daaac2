/** The fields of the form of a load in groups: when requests are sent, what they contain, limits, and the rest. */
import { Checkbox, FileInput, NativeSelect, NumberInput, Textarea, TextInput } from '@mantine/core';
import { useState } from 'react';
import { count } from '../../ui/format';
import { ARRIVALS, type Form, isAtRate, isByRule, leastOf, readTrace, type Traced } from './form';

const PROCESSES: Record<(typeof ARRIVALS)[number], string> = {
  poisson: 'at random (Poisson)',
  constant: 'evenly spaced',
  gamma: 'bursty (gamma)',
  burst: 'in bursts',
  ramp: 'at a rising rate (ramp)',
};
const MAX_TRACE_CHARACTERS = 1_000_000;
const MAX_TRACED = 10_000;

interface Props {
  form: Form;
  set: (change: Partial<Form>) => void;
}

type NumberName = { [Name in keyof Form]: Form[Name] extends number ? Name : never }[keyof Form];
interface Bounds {
  min: number;
  max: number;
  suffix?: string;
  step?: number;
  description?: string | undefined;
}

function Numeric({ form, set, name, label, ...more }: Props & Bounds & { name: NumberName; label: string }) {
  return (
    <NumberInput
      label={label}
      value={form[name]}
      onChange={(value) => typeof value === 'number' && set({ [name]: value })}
      size="xs"
      {...more}
    />
  );
}

interface TraceProps {
  trace: readonly Traced[];
  setTrace: (trace: readonly Traced[]) => void;
}

export function Schedule({ form, set, ...trace }: Props & TraceProps) {
  const own = { form, set };
  if (form.mode === 'trace') return <Trace {...own} {...trace} />;
  return (
    <div className="load-fields">
      {form.mode === 'talks' ? <Talks {...own} /> : null}
      {isAtRate(form) ? <Arrivals {...own} /> : <Streams {...own} />}
      {form.arrivals === 'ramp' || isByQueries(form) ? null : (
        <TextInput
          label="Sweep"
          placeholder={isAtRate(form) ? '1, 2, 4, 8 per second' : '1, 2, 4, 8 in flight'}
          title="Several values, separated by commas: one load each, one after the other"
          value={form.sweep}
          onChange={(event) => set({ sweep: event.currentTarget.value })}
          size="xs"
        />
      )}
    </div>
  );
}

/** Whether the streams are those of one request, or of the queries of a preset: nothing to sweep. */
function isByQueries({ mode, preset }: Form): boolean {
  return mode === 'concurrency' && (preset === 'official' || preset === 'vlm');
}

function Talks({ form, set }: Props) {
  const own = { form, set };
  return (
    <>
      {isByRule(form) ? null : (
        <>
          <NativeSelect
            label="They begin"
            size="xs"
            value={form.arriving ? 'rate' : 'number'}
            onChange={(event) => set({ arriving: event.currentTarget.value === 'rate' })}
            data={[
              { value: 'number', label: 'when another has ended' },
              { value: 'rate', label: 'at a rate' },
            ]}
          />
          <Numeric {...own} name="conversations" label="Conversations" min={1} max={100_000} />
        </>
      )}
      <Numeric {...own} name="turns" label="Questions of each" min={2} max={100} />
      <Numeric {...own} name="think" label="Pause before the next" min={0} max={3600} step={0.5} suffix=" s" />
    </>
  );
}

function Streams({ form, set }: Props) {
  const own = { form, set };
  const least = leastOf(form);
  if (form.mode === 'talks') return <Numeric {...own} name="concurrency" label="At a time" min={1} max={4096} />;
  return (
    <>
      {isByQueries(form) ? (
        <NativeSelect
          label="In flight"
          size="xs"
          value={form.concurrency}
          onChange={(event) => {
            const concurrency = Number(event.currentTarget.value);
            set({ concurrency, requests: leastOf({ ...form, concurrency }) });
          }}
          data={[
            { value: '1', label: '1: single stream' },
            { value: '8', label: '8: a query in eight streams' },
          ]}
        />
      ) : (
        <Numeric {...own} name="concurrency" label="In flight" min={1} max={4096} />
      )}
      <Numeric
        {...own}
        name="requests"
        label="Requests"
        description={least > 1 ? `at least ${count(least)}, and as many as last 600 s` : undefined}
        min={least}
        max={1_000_000}
      />
    </>
  );
}

function Arrivals({ form, set }: Props) {
  const own = { form, set };
  const what = form.mode === 'talks' ? 'Conversations per second' : 'Requests per second';
  return (
    <>
      <Numeric {...own} name="rate" label={what} min={0.001} max={100_000} />
      {isByRule(form) ? null : (
        <>
          <NativeSelect
            label="Arrivals"
            size="xs"
            value={form.arrivals}
            onChange={(event) => set({ arrivals: event.currentTarget.value as Form['arrivals'] })}
            data={ARRIVALS.map((value) => ({ value, label: PROCESSES[value] }))}
          />
          {form.arrivals === 'gamma' ? (
            <Numeric {...own} name="cv" label="Variation of the gaps" min={0.01} max={100} step={0.1} />
          ) : null}
          {form.arrivals === 'burst' ? (
            <Numeric {...own} name="burst" label="Requests of a burst" min={1} max={100_000} />
          ) : null}
          {form.arrivals === 'ramp' ? (
            <Numeric {...own} name="to" label="Up to, per second" min={0.001} max={100_000} />
          ) : null}
          {form.mode === 'rate' ? (
            <Numeric {...own} name="duration" label="Duration" min={1} max={86_400} suffix=" s" />
          ) : null}
        </>
      )}
    </>
  );
}

function Trace({ form, set, trace, setTrace }: Props & TraceProps) {
  const [problem, setProblem] = useState<string | null>(null);
  const read = async (file: File | null) => {
    setProblem(null);
    setTrace([]);
    if (file === null) return;
    if (file.size > MAX_TRACE_CHARACTERS) {
      setProblem('The file is larger than 1 MB; use a part of it, or the command below.');
      return;
    }
    try {
      const requests = readTrace(await file.text());
      if (requests.length > MAX_TRACED) throw new Error(`It has more than ${count(MAX_TRACED)} requests; use a part.`);
      setTrace(requests);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <div className="load-fields wide">
      <FileInput
        label="Trace"
        description={
          trace.length > 0
            ? `${count(trace.length)} requests`
            : 'Lines such as {"timestamp_s": 1.5, "prompt_tokens": 100, "output_tokens": 20}'
        }
        placeholder="Choose a file"
        accept=".jsonl,.json,.txt"
        onChange={(file) => void read(file)}
        error={problem}
        size="xs"
        clearable
        clearButtonProps={{ 'aria-label': 'Remove the file' }}
      />
      <Numeric
        form={form}
        set={set}
        name="speed"
        label="Speed"
        description="Factor by which it is replayed faster"
        min={0.001}
        max={1000}
      />
    </div>
  );
}

export function Content({ form, set }: Props) {
  const own = { form, set };
  return (
    <div className="load-fields">
      <TextInput
        label="Prompt"
        placeholder="random words"
        title="A text that every request has in place of random words; a prompt cache answers from it"
        size="xs"
        value={form.text}
        onChange={(event) => set({ text: event.currentTarget.value })}
        maxLength={100_000}
      />
      {form.text.trim() ? null : <Numeric {...own} name="prompt" label="Words per prompt" min={1} max={200_000} />}
      <Numeric {...own} name="output" label="Output tokens, at most" min={1} max={200_000} />
      <Numeric {...own} name="images" label="Images" min={0} max={16} />
      {form.images > 0 ? (
        <>
          <TextInput
            label="Image sizes"
            title="Of several sizes, separated by commas, each image gets a random one"
            size="xs"
            value={form.size}
            onChange={(event) => set({ size: event.currentTarget.value })}
          />
          <Numeric {...own} name="reuse" label="Share of repeated images" min={0} max={1} step={0.1} />
        </>
      ) : null}
    </div>
  );
}

export function Limits({ form, set }: Props) {
  const bounds = { form, set, min: 0, max: 3_600_000, suffix: ' ms' };
  return (
    <div className="load-fields">
      <Numeric {...bounds} name="ttft" label="Limit of TTFT p99 (0: none)" />
      <Numeric {...bounds} name="tpot" label="Limit of TPOT p99 (0: none)" />
      <Numeric {...bounds} name="latency" label="Limit of latency p99 (0: none)" />
      <TextInput
        label="Secret with the key"
        placeholder="name, if it needs one"
        size="xs"
        value={form.key}
        onChange={(event) => set({ key: event.currentTarget.value })}
      />
    </div>
  );
}

export function More({ form, set }: Props) {
  const own = { form, set };
  return (
    <details className="load-more">
      <summary className="sub">Warm-up, timeout, repeats, seed and further fields</summary>
      <div className="stack">
        <div className="load-fields">
          <Numeric {...own} name="warmup" label="Warm-up requests" min={0} max={10_000} />
          {form.mode === 'concurrency' && form.preset === '' ? (
            <Numeric {...own} name="baseline" label="Requests one at a time first" min={0} max={10_000} />
          ) : null}
          <Numeric {...own} name="timeout" label="Timeout" min={1} max={3600} suffix=" s" />
          {form.sweep.trim() === '' ? (
            <Numeric
              {...own}
              name="repeats"
              label="Repeats"
              description="more than one: means with intervals"
              min={1}
              max={50}
            />
          ) : null}
          <Numeric {...own} name="seed" label="Seed" min={0} max={2 ** 53 - 1} />
          <Checkbox
            label="Exactly as many output tokens"
            title="ignore_eos, which vLLM, SGLang and llama.cpp know"
            size="xs"
            checked={form.eos}
            onChange={(event) => set({ eos: event.currentTarget.checked })}
          />
        </div>
        <Textarea
          label="Further fields of every request, as a JSON object"
          placeholder='{"top_k": 1}'
          size="xs"
          autosize
          value={form.extra}
          onChange={(event) => set({ extra: event.currentTarget.value })}
        />
      </div>
    </details>
  );
}
