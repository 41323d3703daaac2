/** How the answers of a stage of several models become one. */
import { NativeSelect, Textarea } from '@mantine/core';
import { useState } from 'react';
import { isObject, type Json } from '../new-run/entry';
import type { Aggregation, Stage } from './draft';
import { ModelSelect } from './Members';

interface Props {
  stage: Stage;
  name: string;
  change: (change: Partial<Stage>) => void;
}

const TYPES = [
  { value: 'vote', label: 'vote' },
  { value: 'synthesis', label: 'a model merges them' },
  { value: 'concat', label: 'one after the other' },
  { value: 'template', label: 'template' },
];
const RULES = [
  { value: 'plurality', label: 'most weight' },
  { value: 'majority', label: 'more than half' },
  { value: 'unanimous', label: 'all of them' },
  { value: 'ranked', label: 'ranked lists' },
];

export function AggregationFields({ stage, name, change }: Props) {
  const { aggregation } = stage;
  const set = (changed: Partial<Aggregation>) => change({ aggregation: { ...aggregation, ...changed } });
  const param = (key: string, value: Json | undefined) => {
    const { [key]: _, ...others } = aggregation.params;
    set({ params: value === undefined ? others : { ...others, [key]: value } });
  };
  const text = (key: string) => {
    const value = aggregation.params[key];
    return typeof value === 'string' ? value : '';
  };
  const types = TYPES.some(({ value }) => value === aggregation.type)
    ? TYPES
    : [...TYPES, { value: aggregation.type, label: aggregation.type }];
  const asksModel = aggregation.type === 'synthesis' || aggregation.type === 'template' || aggregation.model;
  return (
    <fieldset className="aggregation">
      <legend className="sub">Their answers become one by</legend>
      <div className="field-row">
        <NativeSelect
          size="xs"
          aria-label={`Aggregation of ${name}`}
          value={aggregation.type}
          onChange={(event) => set({ type: event.currentTarget.value, params: {} })}
          data={types}
        />
        {aggregation.type === 'vote' ? (
          <>
            <NativeSelect
              size="xs"
              aria-label={`Rule of the vote in ${name}`}
              value={text('rule') || 'plurality'}
              onChange={(event) => param('rule', defaulted(event.currentTarget.value, 'plurality'))}
              data={RULES}
            />
            <NativeSelect
              size="xs"
              aria-label={`What is voted on in ${name}`}
              value={text('scope') || 'answer'}
              onChange={(event) => param('scope', defaulted(event.currentTarget.value, 'answer'))}
              data={[
                { value: 'answer', label: 'on the answer' },
                { value: 'field', label: 'field by field of its JSON' },
              ]}
            />
          </>
        ) : null}
        {asksModel ? (
          <ModelSelect
            label={
              aggregation.type === 'template'
                ? `Model asked with the template of ${name}`
                : `Model that merges in ${name}`
            }
            value={aggregation.model ?? null}
            onChange={(model) => {
              const { model: _, ...others } = aggregation;
              const { model: __, ...params } = others.params;
              change({ aggregation: { ...others, params, ...(model && { model }) } });
            }}
            isClearable
          />
        ) : null}
      </div>
      {aggregation.type === 'template' ? (
        <Textarea
          size="xs"
          aria-label={`Template of ${name}`}
          placeholder={'{% for member in members %}{{ member.text }}{% endfor %}'}
          value={text('template')}
          onChange={(event) => param('template', event.currentTarget.value)}
          classNames={{ input: 'mono' }}
          autosize
          minRows={2}
          maxRows={12}
          spellCheck={false}
        />
      ) : null}
      <Params key={aggregation.type} aggregation={aggregation} name={name} set={set} />
    </fieldset>
  );
}

/** All params as JSON, for those that have no field. */
function Params({
  aggregation,
  name,
  set,
}: {
  aggregation: Aggregation;
  name: string;
  set: (changed: Partial<Aggregation>) => void;
}) {
  const written = JSON.stringify(aggregation.params);
  const [typed, setTyped] = useState<{ text: string; of: string }>();
  const text = typed?.of === written ? typed.text : written;
  const isWrong = parsed(text) === undefined;
  return (
    <details>
      <summary>All params of the aggregation of {name}</summary>
      <Textarea
        size="xs"
        aria-label={`Params of the aggregation of ${name}, as JSON`}
        value={text}
        onChange={(event) => {
          const value = event.currentTarget.value;
          const params = parsed(value);
          setTyped({ text: value, of: params ? JSON.stringify(params) : written });
          if (params) set({ params });
        }}
        error={isWrong ? 'It is no JSON object yet; the params are those that were read last.' : undefined}
        classNames={{ input: 'mono' }}
        autosize
        spellCheck={false}
      />
    </details>
  );
}

function parsed(text: string): { [key: string]: Json } | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function defaulted(value: string, standard: string): string | undefined {
  return value === standard ? undefined : value;
}
