/** The GGUF models: whether they can be used and why not, headers, estimates; load, unload and pin them. */
import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useMemo } from 'react';
import { Ago } from '../../ui/Ago';
import { useAllowed } from '../../ui/allowed';
import { columnsOf, DataTable } from '../../ui/DataTable';
import { bytes, count } from '../../ui/format';
import { Loaded } from '../../ui/Loaded';
import { Empty, WithCode } from '../../ui/Notes';
import { Estimate } from './Estimate';
import { type Holding, type ModelStatus, modelsQuery, useHold } from './queries';
import { pipelines as route } from './route';

const TONES: Readonly<Record<ModelStatus['status'], readonly [string, string]>> = {
  available: ['good', '✓ available'],
  missing: ['', '– missing'],
  invalid: ['bad', '✕ invalid'],
  too_large: ['bad', '✕ too large'],
  waiting: ['busy', '○ waiting for a worker'],
  loading: ['busy', '● loading'],
  loaded: ['good', '● loaded'],
  error: ['bad', '✕ error'],
};
/** The order of the rows: what is loaded first, what cannot be used last. */
const RANKS: readonly ModelStatus['status'][] = [
  'loaded',
  'loading',
  'waiting',
  'error',
  'available',
  'too_large',
  'invalid',
  'missing',
];
const HELD: ReadonlySet<string> = new Set(['waiting', 'loading', 'loaded', 'error']);

export function Models() {
  const { model } = route.useSearch();
  const query = useQuery(modelsQuery);
  return (
    <>
      {model ? <Estimate name={model} status={query.data?.items.find((item) => item.name === model)} /> : null}
      <section className="card" aria-label="Models">
        <header>
          <h2>GGUF models</h2>
          <span className="sub">
            by the headers of their files on the machine of the API
            {query.dataUpdatedAt > 0 ? (
              <>
                , read <Ago at={new Date(query.dataUpdatedAt).toISOString()} />
              </>
            ) : null}
          </span>
        </header>
        <Loaded query={query} what="models">
          {({ items }) =>
            items.length === 0 ? (
              <Empty title="No GGUF model is registered">
                <p className="note-text">
                  Register the files of a folder with <code>vlmhyperbench models import models.yaml</code>.
                </p>
              </Empty>
            ) : (
              <Table
                items={[...items].sort((first, second) => RANKS.indexOf(first.status) - RANKS.indexOf(second.status))}
              />
            )
          }
        </Loaded>
      </section>
    </>
  );
}

function Table({ items }: { items: readonly ModelStatus[] }) {
  const columns = useMemo(
    () =>
      columnsOf<ModelStatus>([
        {
          id: 'name',
          header: 'Model',
          cell: (row) => (
            <div className="wide-text">
              {row.is_registered === false ? (
                <bdi>{row.name}</bdi>
              ) : (
                <Link to="/pipelines" search={{ tab: 'models', model: row.name }}>
                  <bdi>{row.name}</bdi>
                </Link>
              )}
              <div className="sub">
                <bdi>{row.file ?? 'no file'}</bdi>
              </div>
            </div>
          ),
        },
        {
          id: 'status',
          header: 'Status',
          cell: (row) => (
            <div className="model-status">
              <span className={`badge ${TONES[row.status][0]}`}>{TONES[row.status][1]}</span>
              {row.is_pinned ? <span className="badge">pinned</span> : null}
              {row.worker ? (
                <span className="sub">
                  on <bdi>{row.worker}</bdi>
                </span>
              ) : null}
              {row.reason ? (
                <p className="sub">
                  <WithCode text={row.reason} />
                </p>
              ) : null}
            </div>
          ),
        },
        { id: 'quantization', header: 'Quantisation', cell: (row) => row.quantization ?? '–', from: 'sm' },
        { id: 'context', header: 'Context', cell: (row) => count(row.context_tokens), isNumber: true, from: 'md' },
        { id: 'architecture', header: 'Architecture', cell: (row) => row.architecture ?? '–', from: 'lg' },
        {
          id: 'parameters',
          header: 'Parameters',
          cell: (row) => count(row.parameter_count),
          isNumber: true,
          from: 'lg',
        },
        { id: 'size', header: 'Files', cell: (row) => bytes(row.size_bytes), isNumber: true, from: 'md' },
        {
          id: 'need',
          header: 'Needs',
          isNumber: true,
          from: 'sm',
          cell: (row) => (
            <>
              {bytes(row.need_bytes)}
              {row.estimate_source ? <div className="sub">{row.estimate_source.replaceAll('_', ' ')}</div> : null}
            </>
          ),
        },
        { id: 'hold', header: <span className="visually-hidden">Load</span>, cell: (row) => <Hold model={row} /> },
      ]),
    [],
  );
  return <DataTable columns={columns} rows={items} idOf={(row) => row.name} label="Models" />;
}

function Hold({ model }: { model: ModelStatus }) {
  const mayLoad = useAllowed('worker:write');
  const hold = useHold();
  const canLoad = model.is_registered !== false && model.status !== 'missing' && model.status !== 'invalid';
  if (!mayLoad || !canLoad) return null;
  const button = (holding: Holding, word: string) => (
    <Button
      size="compact-xs"
      variant="default"
      aria-label={`${word} ${model.name}`}
      loading={hold.isPending && hold.variables.holding === holding}
      onClick={() => hold.mutate({ name: model.name, holding })}
    >
      {word}
    </Button>
  );
  const isHeld = HELD.has(model.status);
  return (
    <div className="filters hold">
      {!isHeld || model.status === 'error' ? button('load', 'Load') : null}
      {model.is_pinned && isHeld ? button('load', 'Unpin') : button('pin', isHeld ? 'Pin' : 'Load and pin')}
      {isHeld ? button('unload', 'Unload') : null}
    </div>
  );
}
