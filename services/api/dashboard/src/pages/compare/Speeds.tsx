/** Speeds, memory and costs of both runs; a change stands only where both are one valid measurement. */
import { bytes, milliseconds, NONE, significant, words } from '../../ui/format';
import { Scroll } from '../../ui/Scroll';
import type { Compared } from './queries';
import { signed } from './signed';

type Delta = Compared['speeds'][number];

export function Speeds({ compared }: { compared: Compared }) {
  const rows = [...compared.speeds, ...compared.costs].filter(
    ({ baseline, other }) => baseline !== null || other !== null,
  );
  if (rows.length === 0) return null;
  return (
    <section className="card" aria-label="Performance">
      <header>
        <h2>Performance</h2>
        {compared.are_speeds_compared ? null : (
          <span className="badge warn">! not one measurement: the speeds are not compared</span>
        )}
      </header>
      <Scroll label="Table of performance">
        <table className="data">
          <thead>
            <tr>
              <th scope="col">Measured</th>
              <th scope="col" className="num">
                Baseline
              </th>
              <th scope="col" className="num">
                Other
              </th>
              <th scope="col" className="num">
                Change
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((delta) => (
              <Line key={delta.name} delta={delta} />
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

function Line({ delta }: { delta: Delta }) {
  const { change } = delta;
  return (
    <tr>
      <th scope="row">{labelOf(delta.name)}</th>
      <td className="num">{shown(delta.name, delta.baseline)}</td>
      <td className="num">{shown(delta.name, delta.other)}</td>
      <td className="num">{changeText(change)}</td>
    </tr>
  );
}

function changeText(change: number | null): string {
  return change === null ? NONE : `${signed(change * 100, 1)} %`;
}

const UNITS = /_(ms|bytes|per_s)$/;

function labelOf(name: string): string {
  return words(name.replace(UNITS, ''));
}

/** A value in the unit that its name ends with. */
function shown(name: string, value: number | null): string {
  const unit = UNITS.exec(name)?.[1];
  if (unit === 'ms') return milliseconds(value);
  if (unit === 'bytes') return bytes(value);
  return unit === 'per_s' && value !== null ? `${significant(value)} /s` : significant(value);
}
