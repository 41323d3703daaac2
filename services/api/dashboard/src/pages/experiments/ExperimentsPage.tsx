/** All experiments, newest first, with the states of their runs. */
import { Button, SegmentedControl } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { useMemo } from 'react';
import { useListKeys } from '../../app/keys';
import { Ago } from '../../ui/Ago';
import { columnsOf, DataTable } from '../../ui/DataTable';
import { Loaded } from '../../ui/Loaded';
import { Empty } from '../../ui/Notes';
import { StateBadge } from '../../ui/StateBadge';
import { useTitle } from '../../ui/useTitle';
import { type Experiment, experimentsQuery } from './queries';
import { EXPERIMENT_STATES, experiments as route } from './route';

const ALL = 'all';

const COLUMNS = columnsOf<Experiment>([
  {
    id: 'name',
    header: 'Experiment',
    cell: (experiment) => (
      <Link to="/experiments/$id" params={{ id: experiment.id }} className="strong">
        <bdi>{experiment.name}</bdi>
      </Link>
    ),
  },
  {
    id: 'state',
    header: 'State',
    cell: (experiment) => (
      <StateBadge state={experiment.state} isPaused={experiment.is_paused} isCancelling={experiment.is_cancelling} />
    ),
  },
  {
    id: 'runs',
    header: 'Runs',
    cell: (experiment) => <span className="sub">{statesText(experiment.run_states)}</span>,
  },
  { id: 'created', header: 'Created', from: 'sm', cell: (experiment) => <Ago at={experiment.created_at} /> },
  { id: 'by', header: 'By', from: 'md', cell: (experiment) => <bdi className="sub">{experiment.created_by}</bdi> },
]);

export function ExperimentsPage() {
  useTitle('Experiments');
  const search = route.useSearch();
  const navigate = useNavigate({ from: '/experiments' });
  const query = useInfiniteQuery(experimentsQuery(search));
  const shown = useMemo(() => (query.data?.pages ?? []).flatMap((page) => page.items), [query.data]);
  const ids = useMemo(() => shown.map(({ id }) => id), [shown]);
  const current = useListKeys(ids, (id) => void navigate({ to: '/experiments/$id', params: { id } }));
  return (
    <div className="page">
      <div className="page-head">
        <h1>Experiments</h1>
        <SegmentedControl
          size="xs"
          aria-label="State"
          className="states"
          value={search.state ?? ALL}
          onChange={(value) => {
            const state = EXPERIMENT_STATES.find((known) => known === value);
            void navigate({ search: state ? { state } : {} });
          }}
          data={[
            { value: ALL, label: 'All' },
            ...EXPERIMENT_STATES.map((state) => ({
              value: state,
              label: state.charAt(0) + state.slice(1).toLowerCase(),
            })),
          ]}
        />
      </div>
      <Loaded query={query} what="experiments">
        {() =>
          shown.length === 0 ? (
            <Empty title={search.state ? 'No experiment is in this state' : 'No experiment yet'}>
              <p className="note-text">An experiment runs several models, tasks or settings and compares them.</p>
              <pre className="fault">vlmhyperbench run demo</pre>
            </Empty>
          ) : (
            <div className="card">
              <DataTable columns={COLUMNS} rows={shown} idOf={({ id }) => id} label="Experiments" current={current} />
            </div>
          )
        }
      </Loaded>
      {query.hasNextPage ? (
        <Button
          variant="default"
          size="xs"
          loading={query.isFetchingNextPage}
          onClick={() => void query.fetchNextPage()}
        >
          Older experiments
        </Button>
      ) : null}
    </div>
  );
}

/** `2 succeeded, 1 running`, without the states that no run has. */
export function statesText(states: Readonly<Record<string, number>>): string {
  const known = Object.entries(states).filter(([, runs]) => runs > 0);
  return known.length === 0 ? 'none' : known.map(([state, runs]) => `${runs} ${state.toLowerCase()}`).join(', ');
}
