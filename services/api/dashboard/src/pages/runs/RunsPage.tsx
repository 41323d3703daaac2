/** All runs as a query: filters, order and place in the address, saved views, chosen runs to compare or steer together. */
import { Button, NativeSelect, SegmentedControl, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { Plus, Search } from 'lucide-react';
import { useCallback, useEffect, useMemo, useState } from 'react';
import { columnsQuery, rowsQuery } from '../../api/listing';
import { useFollow } from '../../api/live';
import { isOpen } from '../../api/queries';
import { useListKeys } from '../../app/keys';
import { Filters } from '../../ui/Filters';
import { Loaded } from '../../ui/Loaded';
import { Empty } from '../../ui/Notes';
import { SavedViews } from '../../ui/SavedViews';
import { useTitle } from '../../ui/useTitle';
import { Bulk } from './Bulk';
import type { Listed } from './listed';
import { ordersOf } from './orders';
import { RunsTable } from './RunsTable';
import { type RunsSearch, runs as route, STATES } from './route';
import './style.css';

const ALL = 'all';
const MAX_FOLLOWED = 64;
const TYPING_MS = 250;

export function RunsPage() {
  useTitle('Runs');
  const search = route.useSearch();
  const navigate = useNavigate({ from: '/runs' });
  const where = useMemo(
    () => [...(search.state ? [`state=${search.state}`] : []), ...(search.where ?? [])],
    [search.state, search.where],
  );
  const query = useQuery(rowsQuery({ where, q: search.q, order: search.order, cursor: search.cursor }));
  const rows = useMemo(() => query.data?.items ?? [], [query.data]);
  const columns = useQuery(columnsQuery);
  const [chosen, setChosen] = useState<ReadonlyMap<string, Listed>>(new Map());
  const toggle = useCallback((run: Listed) => setChosen((known) => toggled(known, run)), []);
  const selection = useMemo(() => ({ ids: chosen, toggle }), [chosen, toggle]);
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
  const newest =
    chosen.size === 0 ? [] : [...chosen.values()].map((run) => rows.find(({ id }) => id === run.id) ?? run);
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
        <Words key={search.q === undefined ? 'none' : 'some'} q={search.q ?? ''} go={(q) => go({ q }, true)} />
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
      <Bulk runs={newest} clear={() => setChosen(new Map())} />
      <Loaded query={query} what="runs">
        {() =>
          rows.length === 0 ? (
            <Empty title={where.length === 0 && !search.q ? 'Nothing has run yet' : 'No run passes the filters'}>
              {where.length > 0 || search.q ? <Link to="/runs">Show all runs</Link> : null}
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

/** The field of words: what is typed is shown at once, and asked for when the person stops typing. */
function Words({ q, go }: { q: string; go: (q: string | undefined) => void }) {
  const [text, setText] = useState(q);
  const ask = useDebouncedCallback((value: string) => go(value.trim() || undefined), TYPING_MS);
  useEffect(() => ask.cancel, [ask]);
  return (
    <TextInput
      size="xs"
      className="filter-field"
      aria-label="Filter by name, target, task, note or tag"
      placeholder="Name, target, task, note or tag"
      leftSection={<Search size={13} aria-hidden="true" />}
      value={text}
      onChange={(event) => {
        setText(event.currentTarget.value);
        ask(event.currentTarget.value);
      }}
    />
  );
}

function toggled(known: ReadonlyMap<string, Listed>, run: Listed): ReadonlyMap<string, Listed> {
  const next = new Map(known);
  if (!next.delete(run.id)) next.set(run.id, run);
  return next;
}

function words(state: string): string {
  return state.charAt(0) + state.slice(1).toLowerCase();
}
