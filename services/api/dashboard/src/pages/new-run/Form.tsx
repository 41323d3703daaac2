/** The fields of a run: target and task first, then what replaces the task's own choices, the rest below. */
import { SegmentedControl } from '@mantine/core';
import { type Entry, isObject, valueAt } from './entry';
import { type FormState, Property } from './Inputs';
import { alternatives, type Field, fieldsOf } from './schema';

const FIRST = ['task', 'limit', 'prompt', 'scenario'];
const SECOND = ['decoding', 'dataset', 'metrics', 'reports'];
/** Of an entry of the registry, not of a run that is submitted; the target has its own part of the form. */
const NOT_SHOWN = ['name', 'version', 'target'];
const KINDS = ['model', 'endpoint'] as const;

export function Form({ state, setEntry }: { state: FormState; setEntry: (change: (old: Entry) => Entry) => void }) {
  const fields = fieldsOf(state.root, state.root).filter((field) => !NOT_SHOWN.includes(field.key));
  const some = (keys: readonly string[]) =>
    keys.flatMap((key) => fields.find((field) => field.key === key) ?? []) as Field[];
  const others = fields.filter(({ key }) => !FIRST.includes(key) && !SECOND.includes(key));
  const show = (field: Field) => <Property key={field.key} field={field} path={[field.key]} state={state} />;
  const isUsed = others.some(({ key }) => key in state.entry || [...state.errors.keys()].some((at) => isAt(at, key)));
  return (
    <>
      <Target state={state} setEntry={setEntry} />
      {some(FIRST).map(show)}
      {some(SECOND).map(show)}
      <details className="form-group" open={isUsed || undefined}>
        <summary>Scoring, reuse, limits and the rest</summary>
        <div className="fields">{others.map(show)}</div>
      </details>
    </>
  );
}

function isAt(path: string, key: string): boolean {
  return path === key || path.startsWith(`${key}.`);
}

function Target({ state, setEntry }: { state: FormState; setEntry: (change: (old: Entry) => Entry) => void }) {
  const target = valueAt(state.entry, ['target']);
  const isEndpoint = isObject(target) && ('endpoint' in target || 'model_name' in target);
  const kinds = alternatives(state.root.properties?.target ?? {}, state.root);
  const schema = kinds.find((kind) => (isEndpoint ? 'endpoint' : 'model') in (kind.properties ?? {}));
  const fields = schema ? fieldsOf(schema, state.root) : [];
  const own = state.errors.get('target');
  const show = (field: Field) => <Property key={field.key} field={field} path={['target', field.key]} state={state} />;
  const more = fields.filter((field) => !field.isRequired);
  const isUsed = isObject(target) && more.some(({ key }) => key in target || state.errors.has(`target.${key}`));
  return (
    <fieldset className="target">
      <legend>Target</legend>
      <SegmentedControl
        size="xs"
        aria-label="Kind of the target"
        value={isEndpoint ? 'endpoint' : 'model'}
        onChange={(kind) => setEntry(({ target: _, ...rest }) => ({ target: { [kind]: '' }, ...rest }))}
        data={KINDS.map((kind) => ({ value: kind, label: kind === 'model' ? 'Model' : 'Endpoint' }))}
      />
      {own ? <p className="reason">{own}</p> : null}
      {fields.filter((field) => field.isRequired).map(show)}
      <details className="form-group" open={isUsed || undefined}>
        <summary>{isEndpoint ? 'Options of the endpoint' : 'Backend, engine and prices'}</summary>
        <div className="fields">{more.map(show)}</div>
      </details>
    </fieldset>
  );
}
