/** Sampling parameters of a stage; an empty field leaves the task's. */
import { TextInput } from '@mantine/core';
import { numberOr } from '../new-run/entry';
import type { Stage } from './draft';

const FIELDS = [
  ['temperature', 'Temperature'],
  ['top_p', 'Top p'],
  ['max_tokens', 'Max tokens'],
  ['seed', 'Seed'],
] as const;

interface Props {
  stage: Stage;
  name: string;
  change: (change: Partial<Stage>) => void;
}

export function Sampling({ stage, name, change }: Props) {
  return (
    <div className="field-row">
      {FIELDS.map(([key, label]) => (
        <TextInput
          key={key}
          size="xs"
          label={label}
          aria-label={`${label} of ${name}`}
          inputMode="decimal"
          placeholder="as the task"
          value={String(stage.generation[key] ?? '')}
          onChange={(event) => {
            const value = numberOr(event.currentTarget.value);
            const { [key]: _, ...others } = stage.generation;
            change({ generation: value === undefined ? others : { ...others, [key]: value } });
          }}
        />
      ))}
    </div>
  );
}
