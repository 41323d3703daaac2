/** The first page: what runs now with what it uses, what waits, the devices, the last failures and results. */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { rowsQuery } from '../../api/listing';
import { useFollow } from '../../api/live';
import { type Run, runsQuery, workersQuery } from '../../api/queries';
import { Ago } from '../../ui/Ago';
import { Loaded } from '../../ui/Loaded';
import { Empty } from '../../ui/Notes';
import { RunProgress } from '../../ui/RunProgress';
import { StateBadge } from '../../ui/StateBadge';
import { useTitle } from '../../ui/useTitle';
import { cutReason, type Listed } from '../runs/listed';
import { Devices } from './Devices';
import { RecentRuns } from './RecentRuns';
import { ResourceMeters } from './ResourceMeters';

const MAX_SHOWN = 8;
const MAX_COUNTED = 20;
const ENDED = rowsQuery({ where: ['state=SUCCEEDED,PARTIAL,FAILED,CANCELLED'], limit: MAX_SHOWN });
const FAILED = rowsQuery({ where: ['state=FAILED,PARTIAL'], limit: MAX_SHOWN });

const useRuns = (state: Run['state']) =>
  useInfiniteQuery({
    ...runsQuery({ state }, MAX_COUNTED),
    select: ({ pages }) => pages.flatMap((page) => page.items),
  });

export function HomePage() {
  useTitle('');
  const newest = useInfiniteQuery(runsQuery({}, 1));
  const workers = useQuery(workersQuery);
  return (
    <div className="page">
      <h1 className="visually-hidden">Home</h1>
      <Loaded query={newest} what="runs">
        {({ pages }) => (pages.every((page) => page.items.length === 0) ? <NothingYet /> : <Known />)}
      </Loaded>
      <section className="card" aria-label="Devices">
        <header>
          <h2>Devices</h2>
          <Link to="/workers" className="end">
            Workers
          </Link>
        </header>
        <div className="body">
          <Loaded query={workers} what="devices">
            {({ items }) => <Devices workers={items} />}
          </Loaded>
        </div>
      </section>
    </div>
  );
}

function NothingYet() {
  return (
    <Empty title="Nothing has run yet">
      <p className="note-text">
        Begin with the demo: it compares a small model in two precisions on images of documents, in a few minutes on any
        machine.
      </p>
      <pre className="fault">vlmhyperbench demo --keep</pre>
      <p className="note-text">
        Or choose what to run: <Link to="/runs/new">New run</Link>. This page shows it as soon as it begins.
      </p>
    </Empty>
  );
}

function Known() {
  const [begun, indexed, queued] = [useRuns('RUNNING'), useRuns('INDEXED'), useRuns('QUEUED')];
  const [failed, ended] = [useQuery(FAILED), useQuery(ENDED)];
  const running = begun.data && indexed.data && [...begun.data, ...indexed.data];
  useFollow([...(running ?? []), ...(queued.data ?? [])].slice(0, 64).map((run) => run.id));
  return (
    <>
      <div className="grid">
        <Section
          title="Running now"
          where="state=RUNNING,INDEXED"
          count={running?.length}
          hasMore={begun.hasNextPage || indexed.hasNextPage}
        >
          <Loaded query={begun} what="running runs">
            {(first) => (
              <Loaded query={indexed} what="running runs">
                {(rest) => <Running runs={[...first, ...rest]} />}
              </Loaded>
            )}
          </Loaded>
        </Section>
        <Section title="Waiting" where="state=QUEUED" count={queued.data?.length} hasMore={queued.hasNextPage}>
          <Loaded query={queued} what="waiting runs">
            {(runs) => <Waiting runs={runs} />}
          </Loaded>
        </Section>
        {failed.error || failed.data?.items.length ? (
          <Section
            title="Last failures"
            where="state=FAILED,PARTIAL"
            count={failed.data?.items.length}
            hasMore={Boolean(failed.data?.next)}
          >
            <Loaded query={failed} what="failures">
              {({ items }) => <Failures runs={items} />}
            </Loaded>
          </Section>
        ) : null}
      </div>
      <Loaded query={ended} what="finished runs">
        {({ items }) => <RecentRuns runs={items} />}
      </Loaded>
    </>
  );
}

function Running({ runs }: { runs: readonly Run[] }) {
  if (runs.length === 0) return <p className="sub">Nothing runs at the moment.</p>;
  return runs.slice(0, MAX_SHOWN).map((run) => (
    <Line key={run.id} run={run}>
      <RunProgress run={run} />
      <ResourceMeters id={run.id} />
    </Line>
  ));
}

function Waiting({ runs }: { runs: readonly Run[] }) {
  if (runs.length === 0) return <p className="sub">The queue is empty.</p>;
  return runs.slice(0, MAX_SHOWN).map((run) => (
    <Line key={run.id} run={run}>
      <p className="sub">{run.waits_for?.message ?? `priority ${run.priority}`}</p>
    </Line>
  ));
}

function Failures({ runs }: { runs: readonly Listed[] }) {
  return runs.map((run) => (
    <Line key={run.id} run={run}>
      <p className="sub">
        <bdi>{run.reason ? cutReason(run.reason) : `${run.failed} of its requests failed.`}</bdi>
      </p>
    </Line>
  ));
}

interface SectionProps {
  title: string;
  /** The filter of the list that has all of these runs. */
  where: string;
  count: number | undefined;
  /** Whether there are more than are counted. */
  hasMore: boolean;
  children: React.ReactNode;
}

function Section({ title, where, count, hasMore, children }: SectionProps) {
  return (
    <section className="card" aria-label={title}>
      <header>
        <h2>{title}</h2>
        {count === undefined ? null : <span className="sub">{hasMore ? `${count}+` : count}</span>}
        {hasMore || (count ?? 0) > MAX_SHOWN ? (
          <Link to="/runs" search={{ where: [where] }} className="end">
            Show all
          </Link>
        ) : null}
      </header>
      <div className="body lines">{children}</div>
    </section>
  );
}

function Line({ run, children }: { run: Run | Listed; children: React.ReactNode }) {
  return (
    <div className="line">
      <div className="line-head">
        <Link to="/runs/$id" params={{ id: run.id }}>
          <bdi>{run.name}</bdi>
        </Link>
        <StateBadge state={run.state} isPaused={run.is_paused} isCancelling={run.is_cancelling} />
        <span className="sub">
          <Ago at={run.finished_at ?? run.started_at ?? run.created_at} />
        </span>
      </div>
      <p className="sub">
        <bdi>{run.target}</bdi> · <bdi>{run.task}</bdi>
      </p>
      {children}
    </div>
  );
}
