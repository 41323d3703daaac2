/** The paired difference of every metric with its interval and Holm's p; nothing here is computed in the browser. */
import { count, fixed, NONE, score } from '../../ui/format';
import { Scroll } from '../../ui/Scroll';
import type { Compared } from './queries';
import { signed } from './signed';

type Delta = Compared['metrics'][number];

export function Metrics({ compared }: { compared: Compared }) {
  if (compared.metrics.length === 0) {
    return (
      <section className="card" aria-label="Metrics">
        <header>
          <h2>Metrics</h2>
        </header>
        <div className="body sub">The two have no metric in common.</div>
      </section>
    );
  }
  return (
    <section className="card" aria-label="Metrics">
      <header>
        <h2>Metrics</h2>
        <span className="sub">differences of pairs with their 95 % interval; p is adjusted by Holm</span>
      </header>
      <Scroll label="Differences of metrics">
        <table className="data">
          <thead>
            <tr>
              <th scope="col">Metric</th>
              <th scope="col" className="num">
                Baseline
              </th>
              <th scope="col" className="num">
                Other
              </th>
              <th scope="col" className="num">
                Difference
              </th>
              <th scope="col" className="from-sm">
                <span className="visually-hidden">Interval on a scale</span>
              </th>
              <th scope="col" className="num">
                p (Holm)
              </th>
              <th scope="col" className="num from-md">
                Better / equal / worse
              </th>
              <th scope="col" className="num from-md">
                Pairs
              </th>
            </tr>
          </thead>
          <tbody>
            {compared.metrics.map((delta) => (
              <Line key={delta.metric} delta={delta} />
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

function Line({ delta }: { delta: Delta }) {
  const bounds = delta.low === null || delta.high === null ? '' : `${signed(delta.low)} to ${signed(delta.high)}`;
  return (
    <>
      <tr className="before-note">
        <th scope="row">
          <bdi>{delta.label}</bdi>
          {delta.direction === 'lower' ? <span className="sub"> lower is better</span> : null}
        </th>
        <td className="num">{score(delta.baseline)}</td>
        <td className="num">{score(delta.other)}</td>
        <td className="num">
          <span className="measured">
            <strong>{signed(delta.difference)}</strong>
            {bounds ? <small>{bounds}</small> : null}
          </span>
        </td>
        <td className="bar-cell from-sm">
          <DifferenceBar delta={delta} />
        </td>
        <td
          className="num"
          title={delta.test ? `${delta.test}; without adjustment ${fixed(delta.p_value, 4)}` : undefined}
        >
          {pText(delta.p_adjusted)}
        </td>
        <td className="num from-md">
          {count(delta.wins)} / {count(delta.ties)} / {count(delta.losses)}
        </td>
        <td className="num from-md">
          <span className="measured">
            <span>{count(delta.pairs)}</span>
            <small>
              {count(delta.units)} documents{delta.lost ? `, ${count(delta.lost)} unpaired` : ''}
            </small>
          </span>
        </td>
      </tr>
      <tr className="note-row">
        <td colSpan={8} className="sub">
          <div>
            {delta.verdict}
            {delta.disagreement_reason ? `: ${delta.disagreement_reason}` : ''}
          </div>
        </td>
      </tr>
    </>
  );
}

function pText(p: number | null): string {
  return p === null ? NONE : p < 0.0001 ? '< 0.0001' : fixed(p, 4);
}

const WIDTH = 160;

/** The interval around zero, scaled to the widest difference that the metric can have. */
function DifferenceBar({ delta }: { delta: Delta }) {
  if (delta.difference === null || !(delta.scale > 0)) return null;
  const x = (value: number) => WIDTH / 2 + Math.max(-1, Math.min(1, value / delta.scale)) * (WIDTH / 2 - 4);
  return (
    <svg viewBox={`0 0 ${WIDTH} 12`} className="interval-bar" aria-hidden="true" preserveAspectRatio="none">
      <line x1={4} x2={WIDTH - 4} y1={6} y2={6} className="scale" />
      <line x1={WIDTH / 2} x2={WIDTH / 2} y1={0} y2={12} className="scale" />
      {delta.low !== null && delta.high !== null ? (
        <line x1={x(delta.low)} x2={x(delta.high)} y1={6} y2={6} className="range" />
      ) : null}
      <line x1={x(delta.difference)} x2={x(delta.difference)} y1={6} y2={6} className="point" />
    </svg>
  );
}
