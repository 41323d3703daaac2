/** Two sessions side by side, step by step; where they differ is said in words and marked in the texts. */
import { Button, Switch } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { Ago } from '../../ui/Ago';
import { count, seconds, shortId } from '../../ui/format';
import { Loaded } from '../../ui/Loaded';
import { StateBadge } from '../../ui/StateBadge';
import { partsOf } from '../sample/differing';
import { LongText } from '../sample/LongText';
import { type SessionDetail, type Step, sessionQuery } from './queries';
import { type PipelinesSearch, pipelines as route } from './route';
import { type Pair, pairsOf, took } from './steps';

export function CompareSessions({ first, second }: { first: string; second: string }) {
  const [one, other] = [useQuery(sessionQuery(first)), useQuery(sessionQuery(second))];
  return (
    <section className="card" aria-label="Comparison of two sessions">
      <Loaded query={one} what="the first session">
        {(left) => (
          <Loaded query={other} what="the second session">
            {(right) => <SideBySide first={left} second={right} />}
          </Loaded>
        )}
      </Loaded>
    </section>
  );
}

function SideBySide({ first, second }: { first: SessionDetail; second: SessionDetail }) {
  const navigate = useNavigate({ from: '/pipelines' });
  const { differing: isShort = false } = route.useSearch();
  const pairs = pairsOf(first, second);
  const differing = pairs.filter((pair) => pair.differs.length > 0);
  const isSameAnswer = first.answer === second.answer;
  return (
    <>
      <header>
        <h2>Two sessions</h2>
        <span className="sub" role="status">
          {differing.length === 0
            ? 'No step differs.'
            : `${count(differing.length)} of ${count(pairs.length)} steps differ.`}{' '}
          The answers are {isSameAnswer ? 'the same' : 'not the same'}.
        </span>
        <span className="end filters">
          <Switch
            size="xs"
            label="Only what differs"
            checked={isShort}
            onChange={(event) => {
              const differing = event.currentTarget.checked || undefined;
              void navigate({
                search: (old) => ({ ...old, differing }) as PipelinesSearch,
                replace: true,
                resetScroll: false,
              });
            }}
          />
          <Button
            size="compact-xs"
            variant="default"
            onClick={() =>
              void navigate({ search: (old) => ({ ...old, compare: [second.id, first.id] }) as PipelinesSearch })
            }
          >
            Swap
          </Button>
        </span>
      </header>
      <div className="body stack">
        <div className="two">
          <About session={first} word="First" />
          <About session={second} word="Second" />
        </div>
        {(isShort ? differing : pairs).map((pair) => (
          <PairOfSteps key={pair.key} pair={pair} />
        ))}
        <section className="pair" aria-label="Answers">
          <div className="line-head">
            <h3>Answer</h3>
            <Marks differs={isSameAnswer ? [] : ['answer']} />
          </div>
          <div className="two">
            <Text text={first.answer} otherText={second.answer} side="first" label="Answer of the first session" />
            <Text text={second.answer} otherText={first.answer} side="second" label="Answer of the second session" />
          </div>
        </section>
      </div>
    </>
  );
}

function About({ session, word }: { session: SessionDetail; word: string }) {
  return (
    <div>
      <p className="strong">
        {word}: <bdi>{session.name}</bdi> <StateBadge state={session.state} />
      </p>
      <p className="sub">
        {shortId(session.id)} · <bdi>{session.pipeline}</bdi> · <Ago at={session.created_at} /> ·{' '}
        {took(session.compute_s)} compute, {seconds(session.latency_s)} in all
      </p>
      <p dir="auto">{session.question}</p>
    </div>
  );
}

function Marks({ differs }: { differs: readonly string[] }) {
  if (differs.length === 0) return <span className="badge good">= the same</span>;
  return <span className="badge warn">≠ {differs.join(', ')}</span>;
}

function PairOfSteps({ pair }: { pair: Pair }) {
  return (
    <section className="pair" aria-label={pair.title}>
      <div className="line-head">
        <h3>
          <bdi>{pair.title}</bdi>
        </h3>
        <Marks differs={pair.differs} />
      </div>
      <div className="two">
        <Side step={pair.first} other={pair.second} side="first" title={pair.title} />
        <Side step={pair.second} other={pair.first} side="second" title={pair.title} />
      </div>
    </section>
  );
}

interface SideProps {
  step: Step | undefined;
  other: Step | undefined;
  side: 'first' | 'second';
  title: string;
}

function Side({ step, other, side, title }: SideProps) {
  if (step === undefined) return <p className="none">no such step</p>;
  return (
    <div className="stack side">
      <p className="sub">
        {step.state}
        {step.is_reused ? ', reused' : ''} · {count(step.prompt_tokens)} → {count(step.completion_tokens)} tokens ·{' '}
        {took(step.latency_s)}
      </p>
      <Text text={step.text ?? null} otherText={other?.text ?? null} side={side} label={`${title}, ${side} session`} />
      {step.error && step.state === 'failed' ? <p className="reason">{step.error}</p> : null}
      {step.prompt && step.prompt !== other?.prompt ? (
        <details>
          <summary>Prompt, which differs</summary>
          <Text
            text={step.prompt}
            otherText={other?.prompt ?? null}
            side={side}
            label={`Prompt of ${title}, ${side} session`}
          />
        </details>
      ) : null}
    </div>
  );
}

interface TextProps {
  text: string | null;
  otherText: string | null;
  side: 'first' | 'second';
  label: string;
}

/** A text whose parts that only it has are marked; whole texts are marked where they differ by too much. */
function Text({ text, otherText, side, label }: TextProps) {
  if (text === null) return <p className="none">none</p>;
  const parts = otherText === null || otherText === text ? null : partsOf(text, otherText);
  if (parts === null) return <LongText text={text} label={label} />;
  const Mark = side === 'first' ? 'del' : 'ins';
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section className="long-text marked" aria-label={label} tabIndex={0} dir="auto">
      {parts
        .filter((part) => part.kind !== 'only_reference')
        .map((part, place) =>
          part.kind === 'same' ? (
            // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text never move
            <span key={place}>{part.text}</span>
          ) : (
            // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text never move
            <Mark key={place}>{part.text}</Mark>
          ),
        )}
    </section>
  );
}
