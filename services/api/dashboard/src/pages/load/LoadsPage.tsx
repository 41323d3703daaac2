/** Start a load against any endpoint, and the loads so far. */
import { Button } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Ago } from '../../ui/Ago';
import { columnsOf, DataTable } from '../../ui/DataTable';
import { count } from '../../ui/format';
import { Loaded } from '../../ui/Loaded';
import { Empty } from '../../ui/Notes';
import { StateBadge } from '../../ui/StateBadge';
import { useTitle } from '../../ui/useTitle';
import { LoadForm } from './LoadForm';
import { type Load, loadsQuery } from './queries';
import { loads as route } from './route';
import './style.css';

const COLUMNS = columnsOf<Load>([
  {
    id: 'load',
    header: 'Load',
    cell: (load) => (
      <Link to="/load/$id" params={{ id: load.id }} className="strong">
        <bdi>{load.name}</bdi>
      </Link>
    ),
  },
  { id: 'state', header: 'State', cell: (load) => <StateBadge state={load.state} /> },
  { id: 'url', header: 'Endpoint', from: 'md', cell: (load) => <bdi className="load-url">{load.url}</bdi> },
  { id: 'workload', header: 'Load as', from: 'lg', cell: (load) => load.in_words },
  { id: 'done', header: 'Done', isNumber: true, cell: (load) => `${count(load.done)} / ${count(load.total)}` },
  { id: 'failed', header: 'Failed', isNumber: true, from: 'sm', cell: (load) => count(load.failed) },
  { id: 'created', header: 'Started', from: 'sm', cell: (load) => <Ago at={load.created_at} /> },
]);

export function LoadsPage() {
  useTitle('Load');
  const query = useInfiniteQuery(loadsQuery);
  return (
    <div className="page">
      <div className="page-head">
        <h1>Load</h1>
      </div>
      <section className="card">
        <header>
          <h2>New load</h2>
        </header>
        <div className="body">
          <LoadForm given={route.useSearch()} />
        </div>
      </section>
      <Loaded query={query} what="loads">
        {({ pages }) => {
          const shown = pages.flatMap((page) => page.items);
          return shown.length === 0 ? (
            <Empty title="No load yet">
              <p className="note-text">A load sends prompts of random words, and measures times and rates.</p>
            </Empty>
          ) : (
            <section className="card">
              <header>
                <h2>Loads so far</h2>
              </header>
              <DataTable columns={COLUMNS} rows={shown} idOf={({ id }) => id} label="Loads" />
            </section>
          );
        }}
      </Loaded>
      {query.hasNextPage ? (
        <Button
          variant="default"
          size="xs"
          loading={query.isFetchingNextPage}
          onClick={() => void query.fetchNextPage()}
        >
          Older loads
        </Button>
      ) : null}
    </div>
  );
}
