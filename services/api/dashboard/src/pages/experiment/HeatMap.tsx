/** Targets × tasks with the value of a metric and its interval in each cell; the colour is the value from 0 to 1. */
import { NativeSelect } from '@mantine/core';
import { Link, useNavigate } from '@tanstack/react-router';
import type { Run } from '../../api/queries';
import { words } from '../../ui/format';
import { Measured } from '../../ui/Measured';
import { RunProgress } from '../../ui/RunProgress';
import { Scroll } from '../../ui/Scroll';
import { StateBadge } from '../../ui/StateBadge';
import { matrixOf, metricsOf, shadeOf } from './matrix';
import { experiment as route } from './route';

export function HeatMap({ runs }: { runs: readonly Run[] }) {
  const { metric } = route.useSearch();
  const navigate = useNavigate({ from: '/experiments/$id' });
  const metrics = metricsOf(runs);
  const matrix = matrixOf(runs);
  const shown = metric !== undefined && metrics.includes(metric) ? metric : undefined;
  return (
    <section className="card" aria-label="Matrix">
      <header>
        <h2>Matrix</h2>
        <span className="sub">the fuller the colour, the nearer the value is to 1</span>
        {metrics.length > 0 ? (
          <NativeSelect
            size="xs"
            aria-label="Metric of the matrix"
            value={shown ?? ''}
            onChange={(event) => {
              const chosen = event.currentTarget.value;
              void navigate({ search: (old) => ({ ...old, metric: chosen || undefined }) as never, replace: true });
            }}
            data={[
              { value: '', label: 'Primary metric of each' },
              ...metrics.map((name) => ({ value: name, label: words(name) })),
            ]}
          />
        ) : null}
      </header>
      <Scroll label="Table of the matrix">
        <table className="data heat">
          <thead>
            <tr>
              <th scope="col">Target</th>
              {matrix.tasks.map((task) => (
                <th key={task} scope="col" className="num">
                  <bdi>{task}</bdi>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {matrix.targets.map((target) => (
              <tr key={target}>
                <th scope="row">
                  <bdi>{target}</bdi>
                </th>
                {matrix.tasks.map((task) => (
                  <td key={task} className="num">
                    {matrix.at(target, task).map((run) => (
                      <Cell key={run.id} run={run} metric={shown} />
                    ))}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

function Cell({ run, metric }: { run: Run; metric: string | undefined }) {
  const scores = run.headline?.scores ?? [];
  const score = metric === undefined ? scores[0] : scores.find((known) => known.metric === metric);
  const shade = shadeOf(score?.value);
  const background =
    shade === null ? undefined : `color-mix(in srgb, var(--accent-soft) ${Math.round(shade * 100)}%, var(--paper))`;
  return (
    <div className="heat-cell" style={{ background }}>
      <Link to="/runs/$id" params={{ id: run.id }} title={run.name}>
        {score ? (
          <Measured value={score.value} low={score.ci_low} high={score.ci_high} />
        ) : (
          <StateBadge state={run.state} />
        )}
      </Link>
      {score && metric === undefined ? <small className="sub">{words(score.metric)}</small> : null}
      <RunProgress run={run} />
    </div>
  );
}
