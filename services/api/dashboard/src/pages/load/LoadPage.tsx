/** One load: live speeds while it runs, its times with the conditions of a measurement after that. */
import { Progress as Bar, Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useFollow, useProgress } from '../../api/live';
import { useAllowed } from '../../ui/allowed';
import { count, milliseconds, perSecond, seconds } from '../../ui/format';
import { Loaded } from '../../ui/Loaded';
import { StateBadge } from '../../ui/StateBadge';
import { useTitle } from '../../ui/useTitle';
import { Figure, Speeds } from '../run/Performance';
import { differing, formOf } from './form';
import { isEnded, type LoadDetail, loadQuery, useCancel } from './queries';
import { load as route } from './route';
import './style.css';

export function LoadPage() {
  const { id } = route.useParams();
  const query = useQuery(loadQuery(id));
  useTitle(query.data?.name ?? 'Load');
  useFollow(query.data && !isEnded(query.data) ? [id] : []);
  return (
    <div className="page">
      <Loaded query={query} what="the load" isPage>
        {(load) => (
          <>
            <Head load={load} />
            {isEnded(load) ? null : <Now load={load} />}
            {load.result ? <Result load={load} /> : null}
            {isEnded(load) && !load.result ? (
              <p className="stale">{load.reason ?? 'It ended without a result.'}</p>
            ) : null}
          </>
        )}
      </Loaded>
    </div>
  );
}

function Head({ load }: { load: LoadDetail }) {
  const cancel = useCancel(load.id);
  const mayCancel = useAllowed('run:write');
  return (
    <>
      <div className="page-head">
        <h1>
          <bdi>{load.name}</bdi>
        </h1>
        <StateBadge state={load.state} />
        <div className="right filters">
          {isEnded(load) ? null : (
            <Button
              size="xs"
              variant="default"
              loading={cancel.isPending}
              disabled={!mayCancel}
              onClick={() => cancel.mutate()}
            >
              Cancel
            </Button>
          )}
          <Button size="xs" variant="default" renderRoot={(props) => <Again load={load} {...props} />}>
            Again
          </Button>
        </div>
      </div>
      <p className="sub">
        <bdi className="load-url">{load.url}</bdi>: {load.in_words}
        {load.workload.preset ? `, by the preset ${load.workload.preset}` : ''}; {promptOf(load)}, at most{' '}
        {count(load.workload.output_tokens)} output tokens
        {load.workload.images ? `, ${count(load.workload.images)} images` : ''}.{' '}
        <Link to="/runs/$id" params={{ id: load.id }}>
          Its run
        </Link>
      </p>
      {load.workload.preset === 'quick' ? <p className="sub">quick: not for publication</p> : null}
      {load.warnings.map((warning) => (
        <p className="stale" key={warning}>
          {warning}
        </p>
      ))}
    </>
  );
}

function promptOf({ workload }: LoadDetail): string {
  if (workload.prompt !== null) return 'the same prompt each time';
  return workload.prompt_tokens === null
    ? 'prompts as long as in the trace'
    : `${count(workload.prompt_tokens)} words per prompt`;
}

function Again({ load, ...props }: { load: LoadDetail }) {
  return <Link to="/load" search={differing(formOf(load))} {...props} />;
}

function Now({ load }: { load: LoadDetail }) {
  const progress = useProgress(load.id) ?? load.progress ?? undefined;
  const speeds = progress?.speeds;
  const [done, total] = [progress?.done ?? load.done, progress?.total ?? load.total];
  return (
    <section className="card" aria-label="Now">
      <header>
        <h2>Now</h2>
      </header>
      <div className="body stack">
        <Bar value={total ? (100 * done) / total : 0} aria-label="Progress of the load" />
        <p className="sub" aria-live="polite">
          {load.waits_for?.message ??
            (total === null || total === undefined
              ? 'The prompts are being made.'
              : `${count(done)} of ${count(total)} done, ${count(progress?.failed ?? load.failed)} failed`)}
        </p>
        <dl className="figures">
          <Figure name="Requests" value={perSecond(progress?.rate_per_s)} />
          <Figure name="In flight" value={count(speeds?.in_flight)} />
          <Figure name="Output" value={perSecond(speeds?.output_tokens_per_s, 'tokens')} />
          <Figure name="TTFT p50" value={milliseconds(speeds?.ttft_p50_ms)} note={tail(speeds?.ttft_p99_ms)} />
          <Figure name="TPOT p50" value={milliseconds(speeds?.tpot_p50_ms)} note={tail(speeds?.tpot_p99_ms)} />
          <Figure name="Latency p50" value={milliseconds(speeds?.latency_p50_ms)} note={tail(speeds?.latency_p99_ms)} />
          <Figure name="Time left" value={seconds(progress?.eta_s)} />
        </dl>
      </div>
    </section>
  );
}

function tail(p99: number | null | undefined): string {
  return p99 === null || p99 === undefined ? '' : `p99 ${milliseconds(p99)}`;
}

function Result({ load }: { load: LoadDetail }) {
  const { result } = load;
  if (!result) return null;
  const { requests } = result;
  return (
    <div className="stack">
      <p className={result.valid ? 'sub' : 'stale'}>
        {result.valid
          ? 'All conditions of a measurement held.'
          : result.valid === null
            ? 'Some conditions of a measurement could not be checked.'
            : 'A condition of a measurement did not hold: these numbers show only what happened.'}
      </p>
      <dl className="figures">
        <Figure name="Answered" value={count(requests.ok)} note={`of ${count(requests.scheduled)}`} />
        <Figure name="Failed" value={count(requests.error)} />
        <Figure name="Requests" value={perSecond(result.requests_per_s)} />
        <Figure name="Output" value={perSecond(result.output_tokens_per_s, 'tokens')} />
        <Figure name="Goodput" value={perSecond(result.goodput_per_s)} note={limits(load.slo_ms)} />
        <Figure name="Measured for" value={seconds(result.duration_s)} />
      </dl>
      <Speeds times={result.metrics} gates={result.gates} />
    </div>
  );
}

function limits(slo: Readonly<Record<string, number>>): string {
  const written = Object.entries(slo).map(([name, limit]) => `${name.replace('_', ' ')} ≤ ${milliseconds(limit)}`);
  return written.join(', ') || 'no limit';
}
