/** The models of a stage: chosen by name or dropped, each with its weight and whether the stage goes on without it. */
import { ActionIcon, Checkbox, NumberInput, Select } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { X } from 'lucide-react';
import { useMemo } from 'react';
import { type Member, nameOf, type Stage } from './draft';
import { modelNamesQuery } from './queries';

interface Props {
  stage: Stage;
  name: string;
  change: (change: Partial<Stage>) => void;
  addModel: (model: string) => void;
}

export function Members({ stage, name, change, addModel }: Props) {
  const isMulti = stage.type === 'multi';
  const set = (place: number, member: Partial<Member>) =>
    change({ members: stage.members.map((known, no) => (no === place ? { ...known, ...member } : known)) });
  return (
    <div className="members">
      {stage.members.length > 0 ? (
        <ul aria-label={`Models of ${name}`}>
          {stage.members.map((member, place) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the same model may answer twice, with other sampling
            <li key={place}>
              <bdi className="strong">{nameOf(member)}</bdi>
              {isMulti ? (
                <>
                  <NumberInput
                    size="xs"
                    className="weight"
                    aria-label={`Weight of ${nameOf(member)} in ${name}`}
                    prefix="weight "
                    min={0}
                    step={0.5}
                    value={member.weight ?? 1}
                    onChange={(weight) => set(place, { weight: Number(weight) })}
                  />
                  <Checkbox
                    size="xs"
                    label="optional"
                    aria-label={`${nameOf(member)} is optional in ${name}`}
                    checked={member.optional ?? false}
                    onChange={(event) => set(place, { optional: event.currentTarget.checked })}
                  />
                </>
              ) : null}
              <ActionIcon
                size="sm"
                variant="subtle"
                aria-label={`Remove ${nameOf(member)} from ${name}`}
                onClick={() => change({ members: stage.members.filter((_, no) => no !== place) })}
              >
                <X size={13} aria-hidden="true" />
              </ActionIcon>
            </li>
          ))}
        </ul>
      ) : null}
      <ModelSelect
        label={isMulti || stage.members.length === 0 ? `Add a model to ${name}` : `Choose another model for ${name}`}
        value={null}
        onChange={(model) => addModel(model ?? '')}
      />
    </div>
  );
}

interface SelectProps {
  label: string;
  value: string | null;
  onChange: (model: string | null) => void;
  isClearable?: boolean;
}

export function ModelSelect({ label, value, onChange, isClearable = false }: SelectProps) {
  const { data } = useQuery(modelNamesQuery);
  const names = useMemo(() => (data?.items ?? []).map((item) => item.name), [data]);
  return (
    <Select
      size="xs"
      aria-label={label}
      placeholder={label}
      data={value && !names.includes(value) ? [...names, value] : names}
      value={value}
      onChange={onChange}
      searchable
      clearable={isClearable}
      limit={100}
      nothingFoundMessage="No model has this name"
    />
  );
}
