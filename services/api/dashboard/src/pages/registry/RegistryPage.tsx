/** The registry: what runs and experiments may name, by kind, with what is wrong in an entry. */
import { NativeSelect } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { columnsOf, DataTable } from '../../ui/DataTable';
import { count } from '../../ui/format';
import { Loaded } from '../../ui/Loaded';
import { Empty } from '../../ui/Notes';
import { SearchField } from '../../ui/SearchField';
import { useTitle } from '../../ui/useTitle';
import { matching, registryQuery, type Summary } from './queries';
import { registry as route } from './route';

const COLUMNS = columnsOf<Summary>([
  { id: 'kind', header: 'Kind', cell: (entry) => <span className="sub">{entry.kind}</span> },
  {
    id: 'name',
    header: 'Name',
    cell: (entry) => (
      <div className="wide-text">
        <Link to="/registry/$kind/$name" params={{ kind: entry.kind, name: entry.name }} className="strong">
          <bdi>{entry.name}</bdi>
        </Link>
        {entry.problem ? <p className="reason">{entry.problem}</p> : null}
      </div>
    ),
  },
  { id: 'description', header: 'Description', from: 'sm', cell: (entry) => <bdi>{entry.description}</bdi> },
  { id: 'version', header: 'Version', from: 'md', cell: (entry) => <span className="mono">{entry.version}</span> },
]);

export function RegistryPage() {
  useTitle('Registry');
  const { kind, q = '' } = route.useSearch();
  const navigate = useNavigate({ from: '/registry' });
  const query = useQuery(registryQuery);
  const kinds = [...new Set((query.data?.items ?? []).map((entry) => entry.kind))];
  return (
    <div className="page">
      <div className="page-head">
        <h1>Registry</h1>
        <NativeSelect
          size="xs"
          aria-label="Kind"
          value={kind ?? ''}
          onChange={(event) => {
            const chosen = event.currentTarget.value;
            void navigate({ search: ({ kind: _, ...old }) => ({ ...old, ...(chosen && { kind: chosen }) }) });
          }}
          data={[{ value: '', label: 'All kinds' }, ...kinds.map((name) => ({ value: name, label: name }))]}
        />
        <SearchField
          label="Filter by name or description"
          placeholder="Name or description"
          value={q}
          change={(words) =>
            void navigate({ search: ({ q: _, ...old }) => ({ ...old, ...(words && { q: words }) }), replace: true })
          }
        />
      </div>
      <Loaded query={query} what="the registry">
        {({ items }) => {
          const shown = matching(items, kind, q);
          if (shown.length === 0) return <Empty title="No entry fits the filter" />;
          return (
            <section className="card" aria-label="Entries">
              <header>
                <span className="sub">
                  {count(shown.length)} of {count(items.length)} entries
                </span>
              </header>
              <DataTable
                columns={COLUMNS}
                rows={shown}
                idOf={(entry) => `${entry.kind}/${entry.name}`}
                label="Entries"
              />
            </section>
          );
        }}
      </Loaded>
    </div>
  );
}
