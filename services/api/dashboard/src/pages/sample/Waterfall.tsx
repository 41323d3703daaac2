/** When what happened to a request, from the instant at which it was due: a bar for each span, a tick for each token. */
import type { Schemas } from '../../api/client';
import { count, milliseconds } from '../../ui/format';

type Timing = Schemas['RequestTiming'];

interface Span {
  name: string;
  from: number;
  to: number;
  tone: string;
}

const MAX_TICKS = 400;

/** The spans of a request; those that were not measured are left out. */
export function spansOf(timing: Timing): Span[] {
  const { queue_ms: sent, ttft_ms: first, latency_ms: last, stream_end_ms: end } = timing;
  const spans = [
    { name: 'Waited to be sent', from: 0, to: sent, tone: 'queue' },
    { name: 'Sent to first token', from: sent ?? 0, to: first, tone: 'prefill' },
    { name: 'First to last token', from: first ?? sent ?? 0, to: last, tone: 'decode' },
    { name: 'Last token to end', from: last ?? first ?? 0, to: end, tone: 'close' },
  ];
  return spans.filter((span): span is Span => span.to !== null && span.to >= span.from);
}

export function Waterfall({
  timing,
  tries,
  isCombined = false,
}: {
  timing: Timing;
  tries: number;
  isCombined?: boolean;
}) {
  if (isCombined) {
    return (
      <p className="sub">
        {milliseconds(timing.latency_ms)} on the critical path: the slowest model of each stage, and what merges,
        without waiting and loading.
      </p>
    );
  }
  const spans = spansOf(timing);
  const end = Math.max(...spans.map(({ to }) => to), ...timing.events_ms.slice(-1), 0);
  if (spans.length === 0 || end <= 0) {
    return <p className="sub">Nothing was timed: the answer was reused, imported, or no request was sent.</p>;
  }
  const share = (ms: number) => (100 * ms) / end;
  const every = Math.ceil(timing.events_ms.length / MAX_TICKS);
  const ticks = timing.events_ms.filter((_, no) => no % every === 0);
  return (
    <>
      <table className="waterfall">
        <caption className="visually-hidden">Times from the instant at which the request was due</caption>
        <tbody>
          {spans.map(({ name, from, to, tone }) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td className="bar-of">
                <span className={tone} style={{ left: `${share(from)}%`, width: `${share(to - from)}%` }} />
                {tone === 'decode' ? (
                  <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
                    {ticks.map((at, no) => (
                      // biome-ignore lint/suspicious/noArrayIndexKey: two events may have one instant
                      <line key={no} x1={share(at)} x2={share(at)} y1={0} y2={10} />
                    ))}
                  </svg>
                ) : null}
              </td>
              <td className="num" title={`from ${milliseconds(from)} to ${milliseconds(to)}`}>
                {milliseconds(to - from)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p className="sub">
        Latency {milliseconds(timing.latency_ms)}, TPOT {milliseconds(timing.tpot_ms)}, {count(timing.events)} token
        events{tries > 1 ? `, sent ${count(tries)} times: the last one is shown` : ''}
      </p>
    </>
  );
}
