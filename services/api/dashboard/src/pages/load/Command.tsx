/** The load of the form as a command, and what only the command line can do with it. */
import { Button, CopyButton, NumberInput, SegmentedControl, TextInput } from '@mantine/core';
import { COMMANDS, commandLacks, commandOf } from './command';
import type { Form } from './form';

interface Props {
  form: Form;
  set: (change: Partial<Form>) => void;
}

export function Command({ form, set }: Props) {
  const command = commandOf(form);
  const lacks = commandLacks(form);
  return (
    <details className="load-more">
      <summary className="sub">As a command: the same load, the largest rate, until precise, two servers</summary>
      <div className="stack">
        <SegmentedControl
          aria-label="What the command does"
          size="xs"
          className="load-choice"
          value={form.command}
          onChange={(value) => set({ command: value as Form['command'] })}
          data={Object.entries(COMMANDS).map(([value, { name }]) => ({ value, label: name }))}
        />
        <p className="sub">{COMMANDS[form.command].does}</p>
        {form.command === 'precision' ? (
          <NumberInput
            label="Half the interval"
            size="xs"
            value={form.precision}
            min={0.1}
            max={99}
            suffix=" %"
            onChange={(value) => typeof value === 'number' && set({ precision: value })}
          />
        ) : null}
        {form.command === 'against' ? (
          <TextInput
            label="Second endpoint"
            placeholder="http://127.0.0.1:8001/v1"
            size="xs"
            value={form.against}
            maxLength={2000}
            onChange={(event) => set({ against: event.currentTarget.value })}
          />
        ) : null}
        {lacks ? <p className="stale">{lacks}</p> : null}
        <pre className="load-command">{command}</pre>
        <div className="filters">
          <CopyButton value={command}>
            {({ copied, copy }) => (
              <Button size="compact-xs" variant="default" onClick={copy}>
                {copied ? 'Copied' : 'Copy'}
              </Button>
            )}
          </CopyButton>
          <span className="sub">
            {form.key.trim() ? 'API_KEY is the variable with the key. ' : ''}
            <code>vlmhyperbench load --help</code> has image files, Unix sockets and several sending processes, too.
          </span>
        </div>
      </div>
    </details>
  );
}
