/** All runs, newest first: filters in the address, chosen runs to compare or steer together. */
import { Button, SegmentedControl, TextInput } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { Plus, Search } from 'lucide-react';
import { useCallback, useMemo, useState } from 'react';
import { type Steering, useSteering } from '../../api/actions';
import { useFollow } from '../../api/live';
import { isOpen, type Run, runsQuery } from '../../api/queries';
import { useListKeys } from '../../app/keys';
import { Loaded } from '../../ui/Loaded';
import { Empty } from '../../ui/Notes';
import { useTitle } from '../../ui/useTitle';
import { RunsTable } from './RunsTable';
import { runs as route, STATES } from './route';

const ALL = 'all';
const MAX_FOLLOWED = 64;

export function RunsPage() {
  useTitle('Runs');
  const search = route.useSearch();
  const navigate = useNavigate({ from: '/runs' });
  const query = useInfiniteQuery(runsQuery({ state: search.state }));
  const known = useMemo(() => (query.data?.pages ?? []).flatMap((page) => page.items), [query.data]);
  const shown = useMemo(() => known.filter((run) => matches(run, search.q ?? '')), [known, search.q]);
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const toggle = useCallback((id: string) => setChosen((ids) => toggled(ids, id)), []);
  const selection = useMemo(() => ({ ids: chosen, toggle }), [chosen, toggle]);
  const ids = useMemo(() => shown.map((run) => run.id), [shown]);
  const current = useListKeys(ids, (id) => void navigate({ to: '/runs/$id', params: { id } }));
  useFollow(
    shown
      .filter(isOpen)
      .slice(0, MAX_FOLLOWED)
      .map((run) => run.id),
  );
  return (
    <div className="page">
      <div className="page-head">
        <h1>Runs</h1>
        <SegmentedControl
          size="xs"
          aria-label="State"
          value={search.state ?? ALL}
          onChange={(state) =>
            void navigate({ search: (old) => ({ ...old, state: STATES.find((one) => one === state) }) })
          }
          data={[{ value: ALL, label: 'All' }, ...STATES.map((state) => ({ value: state, label: words(state) }))]}
          className="states"
        />
        <TextInput
          size="xs"
          aria-label="Filter by name, model, task or id"
          placeholder="Name, model, task or id"
          leftSection={<Search size={13} aria-hidden="true" />}
          value={search.q ?? ''}
          onChange={(event) => {
            const q = event.currentTarget.value;
            void navigate({ search: (old) => ({ ...old, q: q || undefined }), replace: true });
          }}
        />
        <Button
          size="xs"
          leftSection={<Plus size={13} aria-hidden="true" />}
          renderRoot={(props) => <Link to="/runs/new" {...props} />}
        >
          New run
        </Button>
        <Chosen runs={known.filter((run) => chosen.has(run.id))} clear={() => setChosen(new Set())} />
      </div>
      <Loaded query={query} what="runs">
        {() =>
          shown.length === 0 ? (
            <Empty title={known.length === 0 ? 'No run is in this list' : 'No run fits the filter'} />
          ) : (
            <div className="card">
              <RunsTable runs={shown} label="Runs" selection={selection} current={current} />
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
          Older runs
        </Button>
      ) : null}
    </div>
  );
}

function Chosen({ runs, clear }: { runs: readonly Run[]; clear: () => void }) {
  const steering = useSteering();
  if (runs.length === 0) return null;
  const open = runs.filter(isOpen);
  const steer = (kind: Steering, some: readonly Run[]) =>
    steering.mutate({ steering: kind, ids: some.map((run) => run.id) }, { onSuccess: clear });
  return (
    <div className="right" role="toolbar" aria-label="Chosen runs">
      <span className="sub">{runs.length} chosen</span>
      {open.length > 0 ? (
        <>
          <Button
            size="xs"
            variant="default"
            onClick={() =>
              steer(
                'pause',
                open.filter((run) => !run.is_paused),
              )
            }
          >
            Pause
          </Button>
          <Button
            size="xs"
            variant="default"
            onClick={() =>
              steer(
                'resume',
                open.filter((run) => run.is_paused),
              )
            }
          >
            Resume
          </Button>
          <Button size="xs" color="red" variant="outline" onClick={() => steer('cancel', open)}>
            Cancel
          </Button>
        </>
      ) : null}
      <Button size="xs" variant="subtle" onClick={clear}>
        Clear
      </Button>
    </div>
  );
}

function toggled(ids: ReadonlySet<string>, id: string): ReadonlySet<string> {
  const next = new Set(ids);
  if (!next.delete(id)) next.add(id);
  return next;
}

function matches(run: Run, q: string): boolean {
  const wanted = q.trim().toLowerCase();
  return wanted === '' || [run.name, run.target, run.task, run.id].some((text) => text.toLowerCase().includes(wanted));
}

function words(state: string): string {
  return state.charAt(0) + state.slice(1).toLowerCase();
}
