/** A new run: the form made from the schema, its YAML and command beside it, the plan before it runs, and the submission. */
import { Button, SegmentedControl, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useCallback, useEffect, useMemo, useState } from 'react';
import { Loaded } from '../../ui/Loaded';
import { Problem } from '../../ui/Notes';
import { useTitle } from '../../ui/useTitle';
import { type Entry, isBegun, isObject, type Json, MAX_IN_ADDRESS, type Path, withValue } from './entry';
import { Form } from './Form';
import { PlanCard } from './PlanCard';
import { defaultName, entryQuery, errorsByField, newKey, planQuery, schemaQuery, useSubmit } from './queries';
import { type NewRunSearch, newRun as route } from './route';
import type { Schema } from './schema';
import { Command, WrittenYaml, Yaml } from './Text';
import './style.css';

const DEBOUNCE_MS = 400;

export function NewRunPage() {
  useTitle('New run');
  const { from } = route.useSearch();
  const schema = useQuery(schemaQuery);
  const given = useQuery({ ...entryQuery(from ?? ''), enabled: from !== undefined });
  return (
    <div className="page new-run">
      <Loaded query={schema} what="the form">
        {(root) =>
          from === undefined ? (
            <Editor root={root} given={{}} />
          ) : (
            <Loaded query={given} what="the run">
              {(entry) => <Editor key={from} root={root} given={entry} />}
            </Loaded>
          )
        }
      </Loaded>
    </div>
  );
}

function Editor({ root, given }: { root: Schema; given: Entry }) {
  const search = route.useSearch();
  const navigate = useNavigate({ from: '/runs/new' });
  const [entry, setEntry] = useState(() => begun(search, given));
  const [name, setName] = useState(search.name ?? '');
  const [isYaml, setIsYaml] = useState(false);
  const [isRead, setIsRead] = useState(true);
  const set = useCallback((path: Path, value: Json | undefined) => setEntry((old) => withValue(old, path, value)), []);
  const draft = useMemo(() => ({ entry, name }), [entry, name]);
  const [asked] = useDebouncedValue(draft, DEBOUNCE_MS);
  const plan = useQuery(planQuery(asked));
  const submit = useSubmit();
  // The same content has the same key, so that a second click, or a second try after a lost answer, is the same run.
  // biome-ignore lint/correctness/useExhaustiveDependencies: a changed draft is another submission
  const key = useMemo(newKey, [draft]);
  const wrong = submit.error && submit.variables.draft === draft ? submit.error : plan.error;
  const errors = useMemo(() => errorsByField(wrong), [wrong]);
  const isCurrent = asked === draft && !plan.isPlaceholderData && !plan.isFetching;

  useEffect(() => {
    void navigate({ search: (old) => addressOf(old, asked.entry, asked.name), replace: true });
  }, [asked, navigate]);

  const send = () =>
    submit.mutate(
      { draft, key },
      { onSuccess: (run) => void navigate({ to: '/runs/$id', params: { id: run.id }, search: {} }) },
    );
  return (
    // No form element: Enter in a field must not start what may run for hours.
    <div className="stack">
      <div className="page-head">
        <h1>New run</h1>
        <SegmentedControl
          size="xs"
          aria-label="Write as"
          value={isYaml ? 'yaml' : 'form'}
          onChange={(value) => setIsYaml(value === 'yaml')}
          data={[
            { value: 'form', label: 'Form' },
            { value: 'yaml', label: 'YAML' },
          ]}
        />
        <div className="right">
          <Button size="sm" onClick={send} loading={submit.isPending} disabled={!isBegun(entry) || (isYaml && !isRead)}>
            Start the run
          </Button>
        </div>
      </div>
      {submit.error && errors.size === 0 ? <Problem error={submit.error} /> : null}
      <div className="columns">
        <div className="stack">
          <section className="card" aria-label="The run">
            <div className="body fields">
              <TextInput
                label="Name"
                description="How lists show it; by default the model and the task."
                placeholder={defaultName(entry)}
                value={name}
                onChange={(event) => setName(event.currentTarget.value)}
                error={errors.get('name')}
                dir="auto"
              />
              {isYaml ? (
                <WrittenYaml entry={entry} setEntry={setEntry} setIsRead={setIsRead} />
              ) : (
                <Form state={{ entry, errors, root, set }} setEntry={setEntry} />
              )}
            </div>
          </section>
        </div>
        <div className="stack beside">
          <PlanCard query={plan} isBegun={isBegun(asked.entry)} isCurrent={isCurrent} errors={errors} />
          {isYaml ? null : <Yaml entry={entry} />}
          <Command plan={plan.data} isCurrent={isCurrent && !plan.error} />
        </div>
      </div>
    </div>
  );
}

/** What the form begins with: its own address, else the run that it repeats, with model and task from the address. */
function begun(search: NewRunSearch, given: Entry): Entry {
  let entry = search.entry ?? given;
  if (search.model) entry = withValue(entry, ['target'], { model: search.model });
  if (search.task) entry = withValue(entry, ['task'], search.task);
  return entry;
}

/** The address that opens the form as it is, where that is short; else that of the run it came from. */
function addressOf(old: NewRunSearch, entry: Entry, name: string): NewRunSearch {
  const isShort = JSON.stringify(entry).length <= MAX_IN_ADDRESS;
  const from = old.from ? { from: old.from } : {};
  const named = name ? { name } : {};
  return isShort && isBegun(entry) && isObject(entry) ? { ...from, ...named, entry } : { ...from, ...named };
}
