/** What was asked of pipelines: filters, one session with its steps, and two of them side by side. */
import { Button, Checkbox, NativeSelect } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { useMemo } from 'react';
import { useFollow } from '../../api/live';
import { isOpen } from '../../api/queries';
import { useListKeys } from '../../app/keys';
import { Ago } from '../../ui/Ago';
import { columnsOf, DataTable } from '../../ui/DataTable';
import { shortId } from '../../ui/format';
import { Loaded } from '../../ui/Loaded';
import { Empty } from '../../ui/Notes';
import { StateBadge } from '../../ui/StateBadge';
import { STATES } from '../runs/route';
import { CompareSessions } from './CompareSessions';
import { pipelinesQuery, type Session, sessionsQuery } from './queries';
import { type PipelinesSearch, pipelines as route } from './route';
import { SessionCard } from './SessionCard';

export function History() {
  const { session, compare = [] } = route.useSearch();
  const [first, second] = compare;
  return (
    <>
      {first && second ? <CompareSessions first={first} second={second} /> : null}
      {session && !(first && second) ? <SessionCard id={session} /> : null}
      <Sessions />
    </>
  );
}

function Sessions() {
  const search = route.useSearch();
  const navigate = useNavigate({ from: '/pipelines' });
  const { pipeline, state, cursor } = search;
  const compare = useMemo(() => search.compare ?? [], [search.compare]);
  const query = useQuery(sessionsQuery({ pipeline, state, cursor }));
  const known = useQuery(pipelinesQuery);
  const rows = useMemo(() => query.data?.items ?? [], [query.data]);
  const go = (change: { [Key in keyof PipelinesSearch]?: PipelinesSearch[Key] | undefined }) =>
    void navigate({ search: (old) => ({ ...old, ...change }) as PipelinesSearch });
  const ids = useMemo(() => rows.map((row) => row.id), [rows]);
  const current = useListKeys(ids, (id) => go({ session: id, compare: undefined }));
  useFollow(
    rows
      .filter(isOpen)
      .slice(0, 16)
      .map((row) => row.id),
  );
  const columns = useMemo(
    () =>
      columnsOf<Session>([
        { id: 'chosen', header: <span className="visually-hidden">Compare</span>, cell: (row) => <Choice row={row} /> },
        {
          id: 'name',
          header: 'Session',
          cell: (row) => (
            <>
              <Link
                to="/pipelines"
                search={(old) => ({ ...old, tab: 'history', session: row.id, compare: undefined }) as PipelinesSearch}
              >
                <bdi>{row.name}</bdi>
              </Link>
              <div className="sub">{shortId(row.id)}</div>
            </>
          ),
        },
        { id: 'pipeline', header: 'Pipeline', cell: (row) => <bdi>{row.pipeline}</bdi>, from: 'sm' },
        { id: 'state', header: 'State', cell: (row) => <StateBadge state={row.state} /> },
        {
          id: 'parent',
          header: 'Asked again from',
          from: 'md',
          cell: (row) => (row.parent_run_id ? shortId(row.parent_run_id) : '–'),
        },
        { id: 'asked', header: 'Asked', cell: (row) => <Ago at={row.created_at} /> },
      ]),
    [],
  );
  const names = (known.data?.items ?? []).map((item) => item.name);
  const isFiltered = Boolean(pipeline || state);
  return (
    <section className="card" aria-label="Sessions">
      <header>
        <h2>Sessions</h2>
        <div className="filters">
          <NativeSelect
            size="xs"
            aria-label="Pipeline of the sessions"
            value={pipeline ?? ''}
            onChange={(event) => go({ pipeline: event.currentTarget.value || undefined, cursor: undefined })}
            data={[
              { value: '', label: 'All pipelines' },
              ...names,
              ...(pipeline && !names.includes(pipeline) ? [pipeline] : []),
            ]}
          />
          <NativeSelect
            size="xs"
            aria-label="State of the sessions"
            value={state ?? ''}
            onChange={(event) =>
              go({ state: STATES.find((one) => one === event.currentTarget.value), cursor: undefined })
            }
            data={[
              { value: '', label: 'All states' },
              ...STATES.map((value) => ({ value, label: value.toLowerCase() })),
            ]}
          />
          <span className="sub" role="status">
            {compare.length === 1 ? 'Choose a second session to compare the two.' : ''}
          </span>
          {compare.length > 0 ? (
            <Button size="compact-xs" variant="default" onClick={() => go({ compare: undefined })}>
              Choose none
            </Button>
          ) : null}
        </div>
      </header>
      <Loaded query={query} what="sessions">
        {() =>
          rows.length === 0 ? (
            <Empty title={isFiltered ? 'No session passes the filters' : 'Nothing was asked yet'}>
              <p className="note-text">
                {isFiltered ? (
                  <Link to="/pipelines" search={{ tab: 'history' }}>
                    Show all sessions
                  </Link>
                ) : (
                  <Link to="/pipelines">Ask a pipeline</Link>
                )}
              </p>
            </Empty>
          ) : (
            <DataTable columns={columns} rows={rows} idOf={(row) => row.id} label="Sessions" current={current} />
          )
        }
      </Loaded>
      {cursor || query.data?.next ? (
        <div className="foot filters">
          {cursor ? (
            <Button size="xs" variant="default" onClick={() => go({ cursor: undefined })}>
              First page
            </Button>
          ) : null}
          {query.data?.next ? (
            <Button size="xs" variant="default" onClick={() => go({ cursor: query.data?.next ?? undefined })}>
              Next sessions
            </Button>
          ) : null}
        </div>
      ) : null}
    </section>
  );
}

/** Choose a session to compare; a third takes the place of the second. */
function Choice({ row }: { row: Session }) {
  const { compare = [] } = route.useSearch();
  const navigate = useNavigate({ from: '/pipelines' });
  const isChosen = compare.includes(row.id);
  const next = isChosen ? compare.filter((id) => id !== row.id) : [...compare.slice(0, 1), row.id];
  return (
    <Checkbox
      size="xs"
      aria-label={`Compare ${row.name} ${shortId(row.id)}`}
      checked={isChosen}
      onChange={() =>
        void navigate({
          search: (old) => ({ ...old, compare: next.length > 0 ? next : undefined }) as PipelinesSearch,
        })
      }
    />
  );
}
