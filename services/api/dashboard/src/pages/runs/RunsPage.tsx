/** All runs as a query: filters, order and place in the address, saved views, chosen runs to compare or steer together. */
import { Button, NativeSelect, SegmentedControl } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { Plus } from 'lucide-react';
import { useCallback, useMemo } from 'react';
import { columnsQuery, rowsQuery } from '../../api/listing';
import { useFollow } from '../../api/live';
import { isOpen } from '../../api/queries';
import { useListKeys } from '../../app/keys';
import { Filters } from '../../ui/Filters';
import { Loaded } from '../../ui/Loaded';
import { Empty } from '../../ui/Notes';
import { SavedViews } from '../../ui/SavedViews';
import { SearchField } from '../../ui/SearchField';
import { useTitle } from '../../ui/useTitle';
import { Chosen } from './Bulk';
import { idsOf, toggled } from './chosen';
import { ordersOf } from './orders';
import { RunsTable } from './RunsTable';
import { filterOf, type RunsSearch, runs as route, STATES } from './route';
import './style.css';

const ALL = 'all';
const MAX_FOLLOWED = 64;

export function RunsPage() {
  useTitle('Runs');
  const search = route.useSearch();
  const navigate = useNavigate({ from: '/runs' });
  const filter = filterOf(search);
  const isFiltered = filter.where?.length !== 0 || search.q !== undefined;
  const query = useQuery(rowsQuery(filter));
  const rows = useMemo(() => query.data?.items ?? [], [query.data]);
  const columns = useQuery(columnsQuery);
  const choose = useCallback(
    (change: (ids: readonly string[]) => string | undefined) =>
      void navigate({
        search: (old) => ({ ...old, chosen: change(idsOf(old.chosen)) }) as RunsSearch,
        replace: true,
        resetScroll: false,
      }),
    [navigate],
  );
  const chosen = useMemo(() => idsOf(search.chosen), [search.chosen]);
  const selection = useMemo(
    () => ({ ids: new Set(chosen), toggle: (id: string) => choose((known) => toggled(known, id)) }),
    [chosen, choose],
  );
  const ids = useMemo(() => rows.map((run) => run.id), [rows]);
  const current = useListKeys(ids, (id) => void navigate({ to: '/runs/$id', params: { id } }));
  useFollow(
    rows
      .filter(isOpen)
      .slice(0, MAX_FOLLOWED)
      .map((run) => run.id),
  );
  // Another filter or order is another list, which begins at its first page.
  const go = (change: { [Key in keyof RunsSearch]?: RunsSearch[Key] | undefined }, replace = false) =>
    void navigate({ search: (old) => ({ ...old, cursor: undefined, ...change }) as RunsSearch, replace });
  const order = search.order ?? '-created_at';
  return (
    <div className="page">
      <div className="page-head">
        <h1>Runs</h1>
        <SegmentedControl
          size="xs"
          aria-label="State"
          value={search.state ?? ALL}
          onChange={(state) => go({ state: STATES.find((known) => known === state) })}
          data={[{ value: ALL, label: 'All' }, ...STATES.map((state) => ({ value: state, label: words(state) }))]}
          className="states"
        />
        <div className="right">
          <SavedViews page="runs" />
          <Button
            size="xs"
            leftSection={<Plus size={13} aria-hidden="true" />}
            renderRoot={(props) => <Link to="/runs/new" {...props} />}
          >
            New run
          </Button>
        </div>
      </div>
      <div className="filters">
        <SearchField
          label="Filter by name, target, task, note or tag"
          placeholder="Name, target, task, note or tag"
          className="filter-field"
          value={search.q}
          change={(q) => go({ q }, true)}
        />
        <NativeSelect
          size="xs"
          aria-label="Order"
          value={order}
          onChange={(event) => go({ order: event.currentTarget.value })}
          data={ordersOf(columns.data?.columns ?? [], order)}
        />
        <Filters
          where={search.where ?? []}
          change={(changed) => go({ where: changed.length > 0 ? changed : undefined })}
        />
      </div>
      <Chosen ids={chosen} rows={rows} keep={(ids) => choose(() => ids.join(',') || undefined)} />
      <Loaded query={query} what="runs">
        {() =>
          rows.length === 0 ? (
            <Empty title={isFiltered ? 'No run passes the filters' : 'Nothing has run yet'}>
              {isFiltered ? <Link to="/runs">Show all runs</Link> : null}
            </Empty>
          ) : (
            <div className="card">
              <RunsTable runs={rows} label="Runs" selection={selection} current={current} />
            </div>
          )
        }
      </Loaded>
      {search.cursor || query.data?.next ? (
        <div className="filters">
          {search.cursor ? (
            <Button size="xs" variant="default" onClick={() => go({})}>
              First page
            </Button>
          ) : null}
          {query.data?.next ? (
            <Button size="xs" variant="default" onClick={() => go({ cursor: query.data?.next ?? undefined })}>
              Next 100 runs
            </Button>
          ) : null}
        </div>
      ) : null}
    </div>
  );
}

function words(state: string): string {
  return state.charAt(0) + state.slice(1).toLowerCase();
}
