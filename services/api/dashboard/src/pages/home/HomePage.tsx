/** The first page: what runs now, what waits, the devices, and the last failures. */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useFollow } from '../../api/live';
import { isOpen, type Run, runsQuery, workersQuery } from '../../api/queries';
import { Ago } from '../../ui/Ago';
import { Loaded } from '../../ui/Loaded';
import { Empty, Problem } from '../../ui/Notes';
import { RunProgress } from '../../ui/RunProgress';
import { StateBadge } from '../../ui/StateBadge';
import { useTitle } from '../../ui/useTitle';
import { Devices } from './Devices';
import { RecentRuns } from './RecentRuns';

const MAX_SHOWN = 8;

export function HomePage() {
  useTitle('');
  const runs = useInfiniteQuery(runsQuery({}));
  const workers = useQuery(workersQuery);
  return (
    <div className="page">
      <h1 className="visually-hidden">Home</h1>
      <Loaded query={runs} what="runs">
        {({ pages }) => {
          const known = pages.flatMap((page) => page.items);
          return known.length === 0 ? <NothingYet /> : <Known runs={known} />;
        }}
      </Loaded>
      <section className="card" aria-label="Devices">
        <header>
          <h2>Devices</h2>
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

function Known({ runs }: { runs: readonly Run[] }) {
  const open = runs.filter(isOpen);
  const running = open.filter((run) => run.state === 'RUNNING' || run.state === 'INDEXED');
  const waiting = open.filter((run) => !running.includes(run));
  const failed = runs.filter((run) => run.state === 'FAILED' || run.state === 'PARTIAL').slice(0, MAX_SHOWN);
  useFollow(open.slice(0, 64).map((run) => run.id));
  return (
    <>
      <div className="grid">
        <Section title="Running now" count={running.length}>
          {running.length === 0 ? <p className="sub">Nothing runs at the moment.</p> : null}
          {running.slice(0, MAX_SHOWN).map((run) => (
            <Line key={run.id} run={run}>
              <RunProgress run={run} />
            </Line>
          ))}
        </Section>
        <Section title="Waiting" count={waiting.length}>
          {waiting.length === 0 ? <p className="sub">The queue is empty.</p> : null}
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
                <p className="sub">{run.reason ?? `${run.failed} of its requests failed.`}</p>
              </Line>
            ))}
          </Section>
        ) : null}
      </div>
      <RecentRuns runs={runs.filter((run) => !isOpen(run)).slice(0, MAX_SHOWN)} />
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

function Line({ run, children }: { run: Run; children: React.ReactNode }) {
  return (
    <div className="line">
      <div className="line-head">
        <Link to="/runs/$id" params={{ id: run.id }}>
          {run.name}
        </Link>
        <StateBadge state={run.state} isPaused={run.is_paused} isCancelling={run.is_cancelling} />
        <span className="sub">
          <Ago at={run.finished_at ?? run.started_at ?? run.created_at} />
        </span>
      </div>
      <p className="sub">
        {run.target} · {run.task}
      </p>
      {children}
    </div>
  );
}
