/** Every metric of an answer: its value on its scale, how it came about, and by what the compared texts differ. */
import { SegmentedControl } from '@mantine/core';
import { useMemo, useState } from 'react';
import type { Schemas } from '../../api/client';
import { significant, words } from '../../ui/format';
import { nearest, partsOf } from './differing';
import { LongText } from './LongText';

type Trace = Schemas['MetricTrace'];

export function Metrics({ traces }: { traces: readonly Trace[] }) {
  if (traces.length === 0) return <p className="body sub">The answer has no scores yet.</p>;
  return (
    <ul className="traces">
      {traces.map((trace) => (
        <li key={`${trace.metric}-${trace.profile}-${trace.extractor}-${trace.evaluation_id}`}>
          <Metric trace={trace} />
        </li>
      ))}
    </ul>
  );
}

function Metric({ trace }: { trace: Trace }) {
  const statistics = Object.entries(trace.statistics);
  return (
    <>
      <div className="trace-head">
        <h3>{trace.label}</h3>
        <span className="sub">
          {trace.profile} · {trace.extractor}
        </span>
        <span className="trace-value">
          {trace.value === null ? (
            <span className="badge warn">! {words(trace.outcome)}</span>
          ) : (
            <Scale value={trace.value} low={trace.low} high={trace.high} direction={trace.direction} />
          )}
        </span>
      </div>
      {trace.reason ? (
        <p className="sub">
          {trace.is_invalid ? 'The answer could not be read: ' : ''}
          <bdi>{trace.reason}</bdi>
        </p>
      ) : null}
      {trace.compared ? <Compared compared={trace.compared} /> : null}
      <dl className="pairs">
        {trace.formula ? (
          <>
            <dt>Formula</dt>
            <dd>{trace.formula}</dd>
          </>
        ) : null}
        {trace.normaliser ? (
          <>
            <dt>Before comparing</dt>
            <dd>{trace.normaliser}</dd>
          </>
        ) : null}
        {statistics.length > 0 ? (
          <>
            <dt>Statistics</dt>
            <dd>{statistics.map(([name, value]) => `${words(name)} ${significant(value)}`).join(' · ')}</dd>
          </>
        ) : null}
      </dl>
    </>
  );
}

function Scale({ value, low, high, direction }: Pick<Trace, 'low' | 'high' | 'direction'> & { value: number }) {
  const share = low !== null && high !== null && high > low ? (value - low) / (high - low) : null;
  const ends = `${low === null ? '−∞' : significant(low)} to ${high === null ? '∞' : significant(high)}`;
  return (
    <>
      <strong className="num">{significant(value)}</strong>
      {share === null ? null : (
        <span className="scale-track" aria-hidden="true">
          <span style={{ width: `${Math.max(0, Math.min(1, share)) * 100}%` }} />
        </span>
      )}
      <span className="sub">
        on {ends}
        {direction ? `, ${direction} is better` : ''}
      </span>
    </>
  );
}

function Compared({ compared }: { compared: NonNullable<Trace['compared']> }) {
  const { answer, references } = compared;
  const first = useMemo(() => nearest(answer, references), [answer, references]);
  const [at, setAt] = useState<number | null>(null);
  const place = at ?? first;
  const reference = references[place];
  if (reference === undefined) return <p className="sub">The sample has no reference.</p>;
  return (
    <div className="compared">
      {references.length > 1 ? (
        <SegmentedControl
          size="xs"
          aria-label="Reference"
          value={String(place)}
          onChange={(value) => setAt(Number(value))}
          data={references.map((_, no) => ({ value: String(no), label: `Reference ${no + 1}` }))}
        />
      ) : null}
      <Difference answer={answer} reference={reference} />
      {compared.is_cut ? <p className="sub">Only the beginning of these texts is shown.</p> : null}
    </div>
  );
}

export function Difference({ answer, reference }: { answer: string; reference: string }) {
  const parts = useMemo(() => partsOf(answer, reference), [answer, reference]);
  if (answer === reference) {
    return (
      <dl className="difference">
        <dt>Both</dt>
        <dd>
          {answer === '' ? <span className="none">empty</span> : <LongText text={answer} label="Compared text" />}
        </dd>
      </dl>
    );
  }
  if (parts === null) {
    return (
      <dl className="difference">
        <dt>Answer</dt>
        <dd>
          <LongText text={answer} label="Compared answer" />
        </dd>
        <dt>Reference</dt>
        <dd>
          <LongText text={reference} label="Compared reference" />
        </dd>
      </dl>
    );
  }
  const side = (kind: 'only_answer' | 'only_reference') =>
    parts
      .filter((part) => part.kind === 'same' || part.kind === kind)
      .map((part, no) => {
        const key = `${no}-${part.kind}`;
        if (part.kind === 'same') return <span key={key}>{part.text}</span>;
        return kind === 'only_answer' ? <ins key={key}>{part.text}</ins> : <del key={key}>{part.text}</del>;
      });
  return (
    <dl className="difference">
      <dt>Answer</dt>
      <dd dir="auto">{answer === '' ? <span className="none">empty</span> : side('only_answer')}</dd>
      <dt>Reference</dt>
      <dd dir="auto">{reference === '' ? <span className="none">empty</span> : side('only_reference')}</dd>
    </dl>
  );
}
