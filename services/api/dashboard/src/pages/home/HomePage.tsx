/** The first page: what runs now with what it uses, what waits, the devices, the last failures and results. */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { rowsQuery } from '../../api/listing';
import { useFollow } from '../../api/live';
import { type Run, runsQuery, workersQuery } from '../../api/queries';
import { Ago } from '../../ui/Ago';
import { Loaded } from '../../ui/Loaded';
import { Empty, Problem } from '../../ui/Notes';
import { RunProgress } from '../../ui/RunProgress';
import { StateBadge } from '../../ui/StateBadge';
import { useTitle } from '../../ui/useTitle';
import type { Listed } from '../runs/listed';
import { Devices } from './Devices';
import { RecentRuns } from './RecentRuns';
import { ResourceMeters } from './ResourceMeters';

const MAX_SHOWN = 8;
const ENDED = rowsQuery({ where: ['state=SUCCEEDED,PARTIAL,FAILED,CANCELLED'], limit: MAX_SHOWN });
const FAILED = rowsQuery({ where: ['state=FAILED,PARTIAL'], limit: MAX_SHOWN });

/** The runs of a state; undefined while they are read for the first time. */
function useRuns(state: Run['state']): Run[] | undefined {
  const { data } = useInfiniteQuery(runsQuery({ state }, 20));
  return data?.pages.flatMap((page) => page.items);
}

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
          {workers.error && !workers.data ? (
            <Problem error={workers.error} />
          ) : (
            <Devices workers={workers.data?.items ?? []} />
          )}
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
  const running = [...(begun ?? []), ...(indexed ?? [])];
  const waiting = queued ?? [];
  const failed = useQuery(FAILED).data?.items ?? [];
  const ended = useQuery(ENDED).data?.items ?? [];
  useFollow([...running, ...waiting].slice(0, 64).map((run) => run.id));
  return (
    <>
      <div className="grid">
        <Section title="Running now" count={running.length}>
          {begun === undefined || indexed === undefined ? (
            <p className="sub">Loading …</p>
          ) : running.length === 0 ? (
            <p className="sub">Nothing runs at the moment.</p>
          ) : null}
          {running.slice(0, MAX_SHOWN).map((run) => (
            <Line key={run.id} run={run}>
              <RunProgress run={run} />
              <ResourceMeters id={run.id} />
            </Line>
          ))}
        </Section>
        <Section title="Waiting" count={waiting.length}>
          {queued === undefined ? (
            <p className="sub">Loading …</p>
          ) : waiting.length === 0 ? (
            <p className="sub">The queue is empty.</p>
          ) : null}
          {waiting.slice(0, MAX_SHOWN).map((run) => (
            <Line key={run.id} run={run}>
              <p className="sub">{run.waits_for?.message ?? `priority ${run.priority}`}</p>
            </Line>
          ))}
        </Section>
        {failed.length > 0 ? (
          <Section title="Last failures" count={failed.length}>
            {failed.map((run) => (
              <Line key={run.id} run={run}>
                <p className="sub">
                  <bdi>{run.reason ?? `${run.failed} of its requests failed.`}</bdi>
                </p>
              </Line>
            ))}
          </Section>
        ) : null}
      </div>
      <RecentRuns runs={ended} />
    </>
  );
}

function Section({ title, count, children }: { title: string; count: number; children: React.ReactNode }) {
  return (
    <section className="card" aria-label={title}>
      <header>
        <h2>{title}</h2>
        <span className="sub">{count}</span>
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
