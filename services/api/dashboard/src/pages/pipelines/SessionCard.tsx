/** One session: its question, every step with model, tokens and time as it comes, what the stages came to, the answer. */
import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { RotateCcw } from 'lucide-react';
import { useFollow, useProgress } from '../../api/live';
import { isOpen } from '../../api/queries';
import { Ago } from '../../ui/Ago';
import { useAllowed } from '../../ui/allowed';
import { bytes, count, fixed, perSecond, seconds, shortId } from '../../ui/format';
import { Loaded } from '../../ui/Loaded';
import { StateBadge } from '../../ui/StateBadge';
import { LongText } from '../sample/LongText';
import { type SessionDetail, type Step, sessionQuery, useRerun } from './queries';
import { groupsOf, ROLE_WORDS, stepKey, took } from './steps';

export function SessionCard({ id }: { id: string }) {
  const query = useQuery(sessionQuery(id));
  useFollow(query.data && !isOpen(query.data) ? [] : [id]);
  return (
    <section className="card" aria-label="Session">
      <Loaded query={query} what="the session">
        {(session) => (
          <>
            <Head session={session} />
            <div className="body stack">
              <Question session={session} />
              <Stages session={session} />
              <Result session={session} />
            </div>
          </>
        )}
      </Loaded>
    </section>
  );
}

function Head({ session }: { session: SessionDetail }) {
  const progress = useProgress(session.id);
  const stage = isOpen(session) ? progress?.stage : undefined;
  return (
    <header>
      <h2>
        <bdi>{session.name}</bdi>
      </h2>
      <StateBadge state={session.state} />
      <span className="sub" role="status">
        {isOpen(session) ? `It is asked${stage ? `: ${stage.toLowerCase().replaceAll('_', ' ')}` : ''} …` : ''}
      </span>
      <span className="sub">
        asked <Ago at={session.created_at} />
        {session.parent_run_id ? (
          <>
            {' · from '}
            <Link to="/pipelines" search={{ tab: 'history', session: session.parent_run_id }}>
              {shortId(session.parent_run_id)}
            </Link>
          </>
        ) : null}
        {' · '}
        <Link to="/pipelines" search={{ tab: 'history', session: session.id }} title={session.id}>
          {shortId(session.id)}
        </Link>
        {' · '}
        <Link to="/runs/$id" params={{ id: session.id }}>
          its run
        </Link>
      </span>
    </header>
  );
}

function Question({ session }: { session: SessionDetail }) {
  if (session.question === null && session.images.length === 0) {
    return <p className="sub">The question is shown with the first answer.</p>;
  }
  return (
    <div className="question">
      <p className="strong" dir="auto">
        {session.question}
      </p>
      <Pictures session={session} />
    </div>
  );
}

export function Pictures({ session }: { session: SessionDetail }) {
  if (session.images.length === 0) return null;
  return (
    <ul className="pictures" aria-label="Images of the question">
      {session.images.map((sha256, no) => (
        <li key={sha256}>
          <a href={`/api/v1/runs/${session.id}/images/${sha256}`} target="_blank" rel="noreferrer">
            <img src={`/api/v1/runs/${session.id}/images/${sha256}/thumbnail`} alt={`Page ${no + 1} of the question`} />
          </a>
        </li>
      ))}
    </ul>
  );
}

function Stages({ session }: { session: SessionDetail }) {
  return (
    <ol className="session-stages" aria-label="Stages of the session">
      {groupsOf(session).map(({ id, steps, came }) => (
        <li key={id}>
          <div className="line-head">
            <h3>
              <bdi>{id}</bdi>
            </h3>
            {came?.n_valid !== null && came?.n_valid !== undefined ? (
              <span className="sub">
                {count(came.n_valid)} usable
                {came.confidence !== null && came.confidence !== undefined
                  ? ` · confidence ${fixed(came.confidence, 2)}`
                  : ''}
                {came.tie ? ' · tie' : ''}
                {(came.dissent ?? []).length > 0 ? ` · ${(came.dissent ?? []).join(', ')} said otherwise` : ''}
              </span>
            ) : null}
            <span className="end">
              <Rerun session={session} stage={id} />
            </span>
          </div>
          <ul className="session-steps">
            {steps.map((step) => (
              <StepRow key={stepKey(step)} id={session.id} step={step} isOver={!isOpen(session)} />
            ))}
          </ul>
          {came && steps.length > 1 && came.value ? (
            <div className="came">
              <p className="sub">Together:</p>
              <LongText text={came.value} label={`What ${id} came to`} />
            </div>
          ) : null}
          {came && came.status !== 'ok' ? (
            <p className="reason">
              {came.status.replaceAll('_', ' ')}: {came.reason}
            </p>
          ) : null}
        </li>
      ))}
    </ol>
  );
}

function Rerun({ session, stage }: { session: SessionDetail; stage: string }) {
  const navigate = useNavigate({ from: '/pipelines' });
  const mayAsk = useAllowed('run:write');
  const rerun = useRerun(session.id);
  if (isOpen(session) || !mayAsk) return null;
  return (
    <Button
      size="compact-xs"
      variant="default"
      leftSection={<RotateCcw size={12} aria-hidden="true" />}
      loading={rerun.isPending}
      aria-label={`Ask again: ${stage}`}
      onClick={() =>
        rerun.mutate(stage, {
          onSuccess: (run) => void navigate({ search: (old) => ({ ...old, session: run.id }) }),
        })
      }
    >
      Ask again
    </Button>
  );
}

const STEP_BADGES = {
  waiting: ['', '○ waiting'],
  running: ['busy', '● running'],
  done: ['good', '✓ done'],
  failed: ['bad', '✕ failed'],
  skipped: ['', '– not needed'],
} as const;

/** What a step does while it runs: its model is made ready, then asked. */
function Running({ id }: { id: string }) {
  const progress = useProgress(id);
  const [stage, speed] = [progress?.stage, progress?.speeds?.output_tokens_per_s];
  if (!stage) return 'has begun';
  const part = progress?.unit === 'bytes' ? ` ${bytes(progress.done)} of ${bytes(progress.total)}` : '';
  return `${stage.toLowerCase().replaceAll('_', ' ')}${part}${speed ? ` · ${perSecond(speed, 'tokens')}` : ''}`;
}

function StepRow({ id, step, isOver }: { id: string; step: Step; isOver: boolean }) {
  const [tone, word] = STEP_BADGES[step.state];
  return (
    <li aria-label={`Step ${step.stage}: ${step.model}`}>
      <div className="line-head">
        <span className={`badge ${tone}`}>{word}</span>
        <bdi className="strong">{step.model}</bdi>
        {step.role === 'member' ? null : <span className="badge">{ROLE_WORDS[step.role] ?? step.role}</span>}
        {step.is_reused ? <span className="badge">reused</span> : null}
        <span className="sub">
          {step.state === 'done' || step.latency_s !== null
            ? `${count(step.prompt_tokens)} → ${count(step.completion_tokens)} tokens · ${took(step.latency_s)}`
            : isOver
              ? 'was not asked'
              : null}
          {step.state === 'running' ? <Running id={id} /> : null}
        </span>
      </div>
      {step.text !== null && step.text !== undefined ? (
        <LongText text={step.text} label={`Answer of ${step.model} in ${step.stage}`} />
      ) : null}
      {step.error && step.state === 'failed' ? <p className="reason">{step.error}</p> : null}
      {step.prompt ? (
        <details>
          <summary>Prompt</summary>
          <LongText text={step.prompt} label={`Prompt of ${step.model} in ${step.stage}`} />
        </details>
      ) : null}
    </li>
  );
}

function Result({ session }: { session: SessionDetail }) {
  if (isOpen(session)) return null;
  return (
    <section className="result" aria-label="Answer">
      <h3>Answer</h3>
      {session.answer === null ? (
        <p className="reason">{session.error ?? 'It has no answer.'}</p>
      ) : (
        <LongText text={session.answer} label="The answer" />
      )}
      <p className="sub">
        {seconds(session.latency_s)} from start to end, with loading and waiting · {took(session.compute_s)} of compute
        on the critical path
      </p>
    </section>
  );
}
