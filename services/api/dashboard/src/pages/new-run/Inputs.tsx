/** One input for each kind of property of the schema, with its text and what the API says is wrong with it. */
import { Checkbox, NativeSelect, Textarea, type TextareaProps, TextInput, type TextInputProps } from '@mantine/core';
import { useEffect, useState } from 'react';
import { WithCode } from '../../ui/Notes';
import { ManyEntries, OneEntry } from './Choose';
import { type Entry, isObject, type Json, jsonOr, linesOf, numberOr, type Path, valueAt } from './entry';
import type { Field, Schema } from './schema';
import { fieldsOf } from './schema';

export interface FormState {
  entry: Entry;
  errors: ReadonlyMap<string, string>;
  root: Schema;
  set: (path: Path, value: Json | undefined) => void;
}

/** Path of a property → kind of the registry entries that it names. */
const ENTRIES: Record<string, string> = {
  'target.model': 'models',
  'target.backend': 'backends',
  task: 'tasks',
  dataset: 'datasets',
  'dataset.name': 'datasets',
  prompt: 'prompts',
  scenario: 'scenarios',
  'scenario.name': 'scenarios',
  'stop.metric': 'metrics',
};
const MANY: Record<string, string> = { metrics: 'metrics', reports: 'reports' };

export function Property({ field, path, state }: { field: Field; path: Path; state: FormState }) {
  const value = valueAt(state.entry, path);
  const name = path.join('.');
  const error = errorAt(state.errors, name, field.input === 'group' || isObject(value));
  const shared = {
    label: field.label,
    description: field.description ? <WithCode text={field.description} /> : undefined,
    error,
    required: field.isRequired,
    size: 'sm' as const,
  };
  const set = (next: Json | undefined) => state.set(path, next);
  if (isObject(value) && field.schema.properties && field.input !== 'group') {
    return <Group field={field} path={path} state={state} close={() => set(value.name)} />;
  }
  const kind = ENTRIES[name];
  if (kind !== undefined) return <OneEntry {...shared} kind={kind} value={textOf(value)} onChange={set} />;
  const many = MANY[name];
  if (many !== undefined) return <ManyEntries {...shared} kind={many} value={listOf(value)} onChange={set} />;
  switch (field.input) {
    case 'group':
      return <Group field={field} path={path} state={state} />;
    case 'flag':
      return (
        <Checkbox
          {...shared}
          checked={value === true}
          onChange={(event) => set(event.currentTarget.checked ? true : undefined)}
        />
      );
    case 'choice':
      return (
        <NativeSelect
          {...shared}
          value={textOf(value)}
          onChange={(event) => set(event.currentTarget.value || undefined)}
          data={[{ value: '', label: field.isRequired ? 'Choose' : 'As the task says' }, ...field.choices]}
        />
      );
    case 'number':
      return <Typed {...shared} value={value} read={numberOr} write={textOf} set={set} inputMode="decimal" />;
    case 'lines':
      return <Area {...shared} value={value} read={linesOf} write={(item) => listOf(item).join('\n')} set={set} />;
    case 'json':
      return <Area {...shared} value={value} read={jsonOr} write={jsonText} set={set} isMono />;
    case 'text':
      return <Typed {...shared} value={value} read={(text) => text || undefined} write={textOf} set={set} />;
  }
}

function Group({
  field,
  path,
  state,
  close,
}: {
  field: Field;
  path: Path;
  state: FormState;
  close?: (() => void) | undefined;
}) {
  const name = path.join('.');
  const isSet = valueAt(state.entry, path) !== undefined;
  const isWrong = [...state.errors.keys()].some((key) => key === name || key.startsWith(`${name}.`));
  return (
    <details className="form-group" open={isSet || isWrong || undefined}>
      <summary>
        {field.label} {isWrong ? <span className="badge bad">wrong</span> : null}
      </summary>
      {field.description ? (
        <p className="sub">
          <WithCode text={field.description} />
        </p>
      ) : null}
      {state.errors.has(name) ? <p className="reason">{state.errors.get(name)}</p> : null}
      <div className="fields">
        {fieldsOf(field.schema, state.root).map((inner) => (
          <Property key={inner.key} field={inner} path={[...path, inner.key]} state={state} />
        ))}
      </div>
      {close ? (
        <button type="button" className="link-button" onClick={close}>
          Only the name
        </button>
      ) : null}
    </details>
  );
}

interface Draft {
  value: Json | undefined;
  read: (text: string) => Json | undefined;
  write: (value: Json | undefined) => string;
  set: (value: Json | undefined) => void;
}

/** The text as it is typed, which another text of the same value may not replace. */
function useDraft({ value, read, write, set }: Draft) {
  const [text, setText] = useState(() => write(value));
  useEffect(() => {
    setText((old) => (JSON.stringify(read(old)) === JSON.stringify(value) ? old : write(value)));
  }, [value, read, write]);
  const change = (typed: string) => {
    setText(typed);
    set(read(typed));
  };
  return [text, change] as const;
}

function Typed({ value, read, write, set, ...shared }: Draft & Omit<TextInputProps, 'value'>) {
  const [text, change] = useDraft({ value, read, write, set });
  return <TextInput {...shared} value={text} onChange={(event) => change(event.currentTarget.value)} dir="auto" />;
}

function Area({
  value,
  read,
  write,
  set,
  isMono,
  ...shared
}: Draft & { isMono?: boolean } & Omit<TextareaProps, 'value'>) {
  const [text, change] = useDraft({ value, read, write, set });
  return (
    <Textarea
      {...shared}
      value={text}
      onChange={(event) => change(event.currentTarget.value)}
      placeholder={isMono ? '{}' : 'One on each line'}
      classNames={isMono ? { input: 'mono' } : {}}
      autosize
      minRows={1}
      maxRows={8}
    />
  );
}

/** The error of a field; one that the form shows in no field below it is shown here too. */
function errorAt(errors: ReadonlyMap<string, string>, name: string, hasFields: boolean): string | undefined {
  const own = errors.get(name);
  if (own !== undefined || hasFields) return own;
  const inner = [...errors].filter(([key]) => key.startsWith(`${name}.`)).map(([key, text]) => `${key}: ${text}`);
  return inner.length > 0 ? inner.join(' ') : undefined;
}

function textOf(value: Json | undefined): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

function jsonText(value: Json | undefined): string {
  if (value === undefined) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function listOf(value: Json | undefined): string[] {
  if (Array.isArray(value)) return value.map(textOf);
  return value === undefined || value === null ? [] : [textOf(value)];
}
