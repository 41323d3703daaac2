/** The form that starts a load; its values stay in the address, and the same load is shown as a command. */
import { Button, NumberInput, SegmentedControl, Select, TextInput } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { useAllowed } from '../../ui/allowed';
import { Problem } from '../../ui/Notes';
import { bodyOf, commandOf, DEFAULTS, differing, type Form, type Mode, missing, type Preset, withPreset } from './form';
import { useStart } from './queries';

const PRESETS: readonly { preset: Preset; label: string; meaning: string }[] = [
  { preset: 'quick', label: 'quick', meaning: 'Ten seconds; not for publication' },
  { preset: 'official', label: 'official', meaning: "Ten minutes of Poisson arrivals, as MLPerf's rules of server" },
  { preset: 'vlm', label: 'vlm', meaning: 'official with an image and a limit of 12 s on the latency' },
];

export function LoadForm({ given }: { given: Partial<Form> }) {
  const navigate = useNavigate({ from: '/load' });
  const start = useStart();
  const mayStart = useAllowed('run:write');
  const [form, setForm] = useState<Form>({ ...DEFAULTS, ...given });
  const set = (change: Partial<Form>) => {
    const next = { ...form, ...change };
    setForm(next);
    void navigate({ search: differing(next), replace: true, resetScroll: false });
  };
  const number = (name: NumberName, label: string, more: { min: number; max: number; suffix?: string }) => (
    <NumberInput
      label={label}
      value={form[name]}
      onChange={(value) => typeof value === 'number' && set({ [name]: value })}
      size="xs"
      {...more}
    />
  );
  const lacks = missing(form);
  return (
    <form
      className="stack"
      aria-label="New load"
      onSubmit={(event) => {
        event.preventDefault();
        start.mutate(bodyOf(form), { onSuccess: ({ id }) => void navigate({ to: '/load/$id', params: { id } }) });
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
      <div className="filters">
        <span className="sub">Fill by a preset:</span>
        {PRESETS.map(({ preset, label, meaning }) => (
          <Button
            key={preset}
            size="compact-xs"
            variant="default"
            title={meaning}
            onClick={() => set(withPreset(form, preset))}
          >
            {label}
          </Button>
        ))}
      </div>
      <SegmentedControl
        aria-label="How requests are sent"
        size="xs"
        value={form.mode}
        onChange={(mode) => set({ mode: mode as Mode })}
        data={[
          { value: 'rate', label: 'At a rate' },
          { value: 'concurrency', label: 'A number in flight' },
        ]}
      />
      <div className="load-fields">
        {form.mode === 'rate' ? (
          <>
            {number('rate', 'Requests per second', { min: 0.001, max: 100_000 })}
            <Select
              label="Arrivals"
              size="xs"
              value={form.arrivals}
              onChange={(value) => value && set({ arrivals: value as Form['arrivals'] })}
              data={[
                { value: 'poisson', label: 'at random (Poisson)' },
                { value: 'constant', label: 'evenly spaced' },
              ]}
              allowDeselect={false}
            />
            {number('duration', 'Duration', { min: 1, max: 86_400, suffix: ' s' })}
          </>
        ) : (
          <>
            {number('concurrency', 'In flight', { min: 1, max: 4096 })}
            {number('requests', 'Requests', { min: 1, max: 1_000_000 })}
          </>
        )}
        {number('prompt', 'Words per prompt', { min: 1, max: 200_000 })}
        {number('output', 'Output tokens, at most', { min: 1, max: 200_000 })}
        {number('images', 'Images', { min: 0, max: 16 })}
        {form.images > 0 ? (
          <TextInput
            label="Image size"
            size="xs"
            value={form.size}
            onChange={(event) => set({ size: event.currentTarget.value })}
          />
        ) : null}
        {number('ttft', 'Limit of TTFT p99 (0: none)', { min: 0, max: 3_600_000, suffix: ' ms' })}
        {number('tpot', 'Limit of TPOT p99 (0: none)', { min: 0, max: 3_600_000, suffix: ' ms' })}
        {number('latency', 'Limit of latency p99 (0: none)', { min: 0, max: 3_600_000, suffix: ' ms' })}
        <TextInput
          label="Secret with the key"
          placeholder="name, if it needs one"
          size="xs"
          value={form.key}
          onChange={(event) => set({ key: event.currentTarget.value })}
        />
      </div>
      <details>
        <summary className="sub">The same load as a command</summary>
        <pre className="load-command">{commandOf(form)}</pre>
      </details>
      {start.error ? <Problem error={start.error} /> : null}
      <div className="filters">
        <Button type="submit" size="xs" loading={start.isPending} disabled={lacks !== undefined || !mayStart}>
          Start the load
        </Button>
        <span className="sub">{mayStart ? lacks : 'Your key may not start runs.'}</span>
      </div>
    </form>
  );
}

type NumberName = { [Name in keyof Form]: Form[Name] extends number ? Name : never }[keyof Form];
