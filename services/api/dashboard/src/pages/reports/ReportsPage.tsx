/** The reports of runs and experiments, newest first; an entry opens the report in a format. */
import { Button } from '@mantine/core';
import { infiniteQueryOptions, useInfiniteQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { api, body } from '../../api/client';
import { Ago } from '../../ui/Ago';
import { columnsOf, DataTable } from '../../ui/DataTable';
import { bytes, shortId } from '../../ui/format';
import { Loaded } from '../../ui/Loaded';
import { Empty } from '../../ui/Notes';
import { useTitle } from '../../ui/useTitle';
import { type Reported, scopesOf } from './scopes';

const IDLE_MS = 20_000;

const reportsQuery = infiniteQueryOptions({
  queryKey: ['reports'],
  queryFn: ({ pageParam, signal }) =>
    body(
      api.GET('/api/v1/reports', {
        params: { query: { limit: 100, ...(pageParam && { cursor: pageParam }) } },
        signal,
      }),
    ),
  initialPageParam: null as string | null,
  getNextPageParam: (page) => page.next,
  refetchInterval: IDLE_MS,
});

const COLUMNS = columnsOf<Reported>([
  {
    id: 'report',
    header: 'Report of',
    cell: (report) => (
      <a href={`/reports/${report.id}`} target="_blank" rel="noopener" className="strong">
        <bdi>{report.name}</bdi>
      </a>
    ),
  },
  { id: 'page', header: 'Numbers', cell: (report) => <Scope report={report} /> },
  {
    id: 'files',
    header: 'Files',
    cell: (report) => (
      <span className="filters">
        {report.files.map((file) => (
          <a key={file.id} href={`/files/${file.id}`} target="_blank" rel="noopener" title={bytes(file.size_bytes)}>
            <bdi>{file.name}</bdi>
          </a>
        ))}
      </span>
    ),
  },
  { id: 'created', header: 'Created', from: 'sm', cell: (report) => <Ago at={report.created_at} /> },
]);

function Scope({ report }: { report: Reported }) {
  return report.scope === 'run' ? (
    <Link to="/runs/$id" params={{ id: report.id }}>
      run {shortId(report.id)}
    </Link>
  ) : (
    <Link to="/experiments/$id" params={{ id: report.id }}>
      experiment {shortId(report.id)}
    </Link>
  );
}

export function ReportsPage() {
  useTitle('Reports');
  const query = useInfiniteQuery(reportsQuery);
  return (
    <div className="page">
      <div className="page-head">
        <h1>Reports</h1>
      </div>
      <Loaded query={query} what="reports">
        {({ pages }) => {
          const shown = scopesOf(pages.flatMap((page) => page.items));
          return shown.length === 0 ? (
            <Empty title="No report yet">
              <p className="note-text">Each run and each experiment has one when it ends.</p>
            </Empty>
          ) : (
            <div className="card">
              <DataTable columns={COLUMNS} rows={shown} idOf={({ id }) => id} label="Reports" />
            </div>
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
          Older reports
        </Button>
      ) : null}
    </div>
  );
}
