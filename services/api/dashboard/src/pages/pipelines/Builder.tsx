/** The manual builder: stages that are dragged or moved by keys, checked while they change, planned, and saved. */
import { Button, NativeSelect, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { useEffect, useMemo, useRef, useState } from 'react';
import type { Schemas } from '../../api/client';
import { Loaded } from '../../ui/Loaded';
import { type Entry, isObject, MAX_IN_ADDRESS } from '../new-run/entry';
import { Beside } from './Beside';
import {
  changed,
  connected,
  type Draft,
  draftOf,
  EMPTY,
  entryOf,
  moved,
  nameOf,
  type StageType,
  withModel,
  withoutStage,
  withStage,
} from './draft';
import { GraphPicture } from './GraphPicture';
import { checkQuery, pipelinesQuery, savedQuery } from './queries';
import { pipelines as route } from './route';
import { StageCard } from './StageCard';

const DEBOUNCE_MS = 300;

export function BuilderTab() {
  const { pipeline } = route.useSearch();
  return <Begun key={pipeline ?? ''} pipeline={pipeline} />;
}

/** Begin with the draft of the address as it is now, or with an entry of the registry, or with nothing. */
function Begun({ pipeline }: { pipeline: string | undefined }) {
  const { draft, name = '' } = route.useSearch();
  const [given] = useState(() => (draft ? draftOf(name, draft) : { ...EMPTY, name }));
  const isCopy = pipeline !== undefined && given.stages.length === 0;
  const saved = useQuery({ ...savedQuery(pipeline ?? ''), enabled: isCopy });
  if (!isCopy) return <Builder given={given} />;
  return (
    <Loaded query={saved} what="the pipeline">
      {(entry) => <Builder given={copyOf(entry)} />}
    </Loaded>
  );
}

/** The draft of an entry; one of a file is a copy with another name, because the file keeps its own. */
function copyOf({ name, origin, entry }: Schemas['RegistryEntry']): Draft {
  return draftOf(origin === 'file' ? `${name}-2` : name, isObject(entry) ? (entry as Entry) : {});
}

function Builder({ given }: { given: Draft }) {
  const navigate = useNavigate({ from: '/pipelines' });
  const [draft, setDraft] = useState(given);
  const [said, setSaid] = useState('');
  const nextKey = useRef(0);
  const entry = useMemo(() => entryOf(draft), [draft]);
  const content = useMemo(() => ({ name: draft.name, entry }), [draft.name, entry]);
  const [asked] = useDebouncedValue(content, DEBOUNCE_MS);
  const isBegun = draft.stages.length > 0;
  const check = useQuery({ ...checkQuery(asked.name, asked.entry), enabled: isBegun });
  const isCurrent = asked === content && !check.isFetching && !check.isPlaceholderData;
  const problems = isBegun ? (check.data?.problems ?? []) : [];

  useEffect(() => {
    const isShort = JSON.stringify(asked.entry).length <= MAX_IN_ADDRESS;
    const hasStages = Array.isArray(asked.entry.stages) && asked.entry.stages.length > 0;
    void navigate({
      search: (old) => {
        const { draft: _, name: __, ...others } = old;
        return {
          ...others,
          ...(asked.name && { name: asked.name }),
          ...(isShort && hasStages && { draft: asked.entry }),
        };
      },
      replace: true,
    });
  }, [asked, navigate]);

  const add = (type: StageType) => {
    nextKey.current += 1;
    setDraft(withStage(draft, type, `new-${nextKey.current}`));
    setSaid(`Added a ${type} stage as number ${draft.stages.length + 1}.`);
  };
  const move = (from: number, to: number) => {
    if (to < 0 || to >= draft.stages.length || from === to) return;
    setDraft(moved(draft, from, to));
    setSaid(`Moved ${draft.stages[from]?.id ?? ''} to place ${to + 1} of ${draft.stages.length}.`);
  };
  return (
    <div className="builder">
      <div className="stack">
        <section className="card" aria-label="The pipeline">
          <div className="body builder-head">
            <TextInput
              size="xs"
              label="Name"
              description="Of the entry; base makes it the base pipeline."
              value={draft.name}
              onChange={(event) => setDraft({ ...draft, name: event.currentTarget.value })}
              error={textOf(problems.find((problem) => problem.field === 'name'))}
              maxLength={100}
            />
            <TextInput
              size="xs"
              label="Description"
              value={draft.description}
              onChange={(event) => setDraft({ ...draft, description: event.currentTarget.value })}
              maxLength={500}
              dir="auto"
            />
            <NativeSelect
              size="xs"
              label="Models stay loaded"
              value={draft.mode}
              onChange={(event) => setDraft({ ...draft, mode: event.currentTarget.value })}
              data={[
                { value: 'auto', label: 'as the estimates decide' },
                { value: 'sequential', label: 'one after the other' },
                { value: 'persistent', label: 'all of them' },
              ]}
            />
            <BeginWith />
          </div>
        </section>
        <p className="visually-hidden" role="status">
          {said}
        </p>
        {draft.stages.length === 0 ? (
          <p className="sub">
            A pipeline asks models in stages. Add the first one, then give it a model: drag it from the list, or choose
            it in the stage.
          </p>
        ) : null}
        <ol className="builder-stages" aria-label="Stages that are built">
          {draft.stages.map((stage, at) => (
            <StageCard
              key={stage.key}
              stage={stage}
              at={at}
              stages={draft.stages}
              problems={problems.filter((problem) => problem.stage === at)}
              change={(change) => setDraft((old) => changed(old, at, change))}
              connect={(input, isConnected) => setDraft((old) => connected(old, at, input, isConnected))}
              addModel={(model) => setDraft((old) => withModel(old, at, model))}
              move={move}
              remove={() => {
                setDraft(withoutStage(draft, at));
                setSaid(`Removed ${stage.id}.`);
              }}
            />
          ))}
        </ol>
        <div className="filters">
          <Button size="xs" variant="default" onClick={() => add('single')}>
            Add a stage of one model
          </Button>
          <Button size="xs" variant="default" onClick={() => add('multi')}>
            Add a stage of several models
          </Button>
          <Button size="xs" variant="default" onClick={() => add('translate')}>
            Add a translation
          </Button>
        </div>
        {draft.stages.length > 0 ? (
          <section className="card" aria-label="Graph">
            <header>
              <h2>Graph</h2>
              <span className="sub">a click leads to a stage</span>
            </header>
            <div className="body">
              <GraphPicture
                stages={draft.stages.map((stage, at) => ({
                  id: stage.id,
                  inputs: stage.inputs,
                  models: stage.members.map(nameOf),
                  aggregation: stage.aggregation.type,
                  isWrong: problems.some((problem) => problem.stage === at),
                }))}
                choose={(at) => document.getElementById(`id-${draft.stages[at]?.key}`)?.focus()}
              />
            </div>
          </section>
        ) : null}
      </div>
      <div className="stack beside">
        <Beside
          content={content}
          check={check}
          isBegun={isBegun}
          isCurrent={isCurrent}
          general={problems.filter((problem) => problem.stage === null && problem.field !== 'name')}
        />
      </div>
    </div>
  );
}

/** Another pipeline to begin with; it is copied, and saved only when the person saves it. */
function BeginWith() {
  const { data } = useQuery(pipelinesQuery);
  const { pipeline } = route.useSearch();
  const navigate = useNavigate({ from: '/pipelines' });
  const names = (data?.items ?? []).map((item) => item.name);
  return (
    <div>
      <NativeSelect
        size="xs"
        label="Begin with"
        value={pipeline ?? ''}
        onChange={(event) => {
          const chosen = event.currentTarget.value;
          void navigate({ search: chosen ? { tab: 'builder', pipeline: chosen } : { tab: 'builder' } });
        }}
        data={[{ value: '', label: 'an empty pipeline' }, ...names]}
      />
      {pipeline ? (
        <Link className="entry-link" to="/registry/$kind/$name" params={{ kind: 'pipelines', name: pipeline }}>
          Its entry
        </Link>
      ) : null}
    </div>
  );
}

function textOf(problem: { message: string; cure?: string } | undefined): string | undefined {
  return problem ? `${problem.message} ${problem.cure ?? ''}`.trim() : undefined;
}
