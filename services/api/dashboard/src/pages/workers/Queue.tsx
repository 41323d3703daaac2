/** What waits and runs, in the order of priority, each with what it waits for. */
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { Schemas } from '../../api/client';
import { Ago } from '../../ui/Ago';
import { columnsOf, DataTable } from '../../ui/DataTable';
import { count } from '../../ui/format';
import { Loaded } from '../../ui/Loaded';
import { StateBadge } from '../../ui/StateBadge';
import { queueQuery } from './queries';

type Row = Schemas['RunRow'];

const COLUMNS = columnsOf<Row>([
  { id: 'priority', header: 'Priority', isNumber: true, cell: (run) => run.priority },
  {
    id: 'run',
    header: 'Run',
    cell: (run) => (
      <div className="wide-text">
        <Link to="/runs/$id" params={{ id: run.id }} className="strong">
          <bdi>{run.name}</bdi>
        </Link>
        <div className="sub">
          <bdi>{run.target}</bdi> · <bdi>{run.task}</bdi>
        </div>
        {run.reason ? <div className="sub">{run.reason}</div> : null}
      </div>
    ),
  },
  {
    id: 'state',
    header: 'State',
    cell: (run) => <StateBadge state={run.state} isPaused={run.is_paused} isCancelling={run.is_cancelling} />,
  },
  {
    id: 'done',
    header: 'Samples',
    isNumber: true,
    from: 'sm',
    cell: (run) => `${count(run.done)} of ${count(run.total)}`,
  },
  { id: 'since', header: 'Submitted', from: 'sm', cell: (run) => <Ago at={run.created_at} /> },
]);

export function Queue() {
  const query = useQuery(queueQuery);
  return (
    <section className="card" aria-label="Queue">
      <header>
        <h2>Queue</h2>
        <span className="sub">highest priority first</span>
      </header>
      <Loaded query={query} what="the queue">
        {({ items, next }) =>
          items.length === 0 ? (
            <div className="body sub">Nothing waits and nothing runs.</div>
          ) : (
            <>
              <DataTable columns={COLUMNS} rows={items} idOf={(run) => run.id} label="Table of the queue" />
              {next ? <p className="sub foot">Only the first {count(items.length)} are shown.</p> : null}
            </>
          )
        }
      </Loaded>
    </section>
  );
}
