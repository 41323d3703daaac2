/** The numbers behind the figure: the front first, then by the first axis. */
import { Link } from '@tanstack/react-router';
import { useMemo, useState } from 'react';
import { column as columnName, significant } from '../../ui/format';
import { Measured } from '../../ui/Measured';
import type { Plotted } from '../../ui/PointsChart';
import { Scroll } from '../../ui/Scroll';

const MAX_ROWS = 200;

export function PointsTable({ points, x, y }: { points: readonly Plotted[]; x: string; y: string }) {
  const [isWhole, setIsWhole] = useState(false);
  const rows = useMemo(
    () => [...points].sort((first, second) => Number(second.isBest) - Number(first.isBest) || first.x - second.x),
    [points],
  );
  const shown = isWhole ? rows : rows.slice(0, MAX_ROWS);
  return (
    <section className="card" aria-label="Runs of the figure">
      <header>
        <h2>Runs of the figure</h2>
        <span className="sub">the Pareto front first</span>
      </header>
      <Scroll label="Table of the figure">
        <table className="data">
          <thead>
            <tr>
              <th scope="col">Run</th>
              <th scope="col">Front</th>
              <th scope="col" className="num">
                {columnName(x)}
              </th>
              <th scope="col" className="num">
                {columnName(y)}
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map((point) => (
              <tr key={point.id}>
                <th scope="row">
                  <Link to="/runs/$id" params={{ id: point.id }} className="strong">
                    <bdi>{point.name}</bdi>
                  </Link>
                  <div className="sub">
                    <bdi>{point.target}</bdi>
                  </div>
                </th>
                <td>{point.isBest ? <span className="badge good">✓ on the front</span> : null}</td>
                <td className="num">
                  <Measured value={point.x} low={point.xEnds?.[0]} high={point.xEnds?.[1]} show={significant} />
                </td>
                <td className="num">
                  <Measured value={point.y} low={point.yEnds?.[0]} high={point.yEnds?.[1]} show={significant} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      {rows.length > shown.length ? (
        <div className="foot">
          <button type="button" className="quiet-button" onClick={() => setIsWhole(true)}>
            Show all {rows.length}
          </button>
        </div>
      ) : null}
    </section>
  );
}
