/** The stored summaries of runs side by side, for where no paired comparison can be had. */
import { useQueries } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type RunDetail, runQuery } from '../../api/queries';
import { bytes, milliseconds, words } from '../../ui/format';
import { Measured } from '../../ui/Measured';
import { Scroll } from '../../ui/Scroll';

export function SideBySide({ ids }: { ids: readonly string[] }) {
  const runs = useQueries({ queries: ids.map((id) => runQuery(id)) }).flatMap(({ data }) => (data ? [data] : []));
  if (runs.length === 0) return null;
  const metrics = [...new Set(runs.flatMap((run) => run.headline?.scores ?? []).map((score) => score.metric))];
  return (
    <section className="card" aria-label="Side by side">
      <header>
        <h2>Side by side</h2>
        <span className="badge warn">! not paired: read no difference from it</span>
      </header>
      <Scroll label="Table of summaries">
        <table className="data">
          <thead>
            <tr>
              <th scope="col">Of the summaries</th>
              {runs.map((run) => (
                <th key={run.id} scope="col" className="num">
                  <Link to="/runs/$id" params={{ id: run.id }}>
                    <bdi>{run.name}</bdi>
                  </Link>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {metrics.map((metric) => (
              <Line
                key={metric}
                title={words(metric)}
                runs={runs}
                cell={(run) => <Score run={run} metric={metric} />}
              />
            ))}
            <Line title="latency p50" runs={runs} cell={(run) => milliseconds(run.headline?.latency_p50_ms)} />
            <Line title="latency p99" runs={runs} cell={(run) => milliseconds(run.headline?.latency_p99_ms)} />
            <Line title="peak memory" runs={runs} cell={(run) => bytes(run.headline?.peak_memory_bytes)} />
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

interface LineProps {
  title: string;
  runs: readonly RunDetail[];
  cell: (run: RunDetail) => React.ReactNode;
}

function Line({ title, runs, cell }: LineProps) {
  return (
    <tr>
      <th scope="row">{title}</th>
      {runs.map((run) => (
        <td key={run.id} className="num">
          {cell(run)}
        </td>
      ))}
    </tr>
  );
}

function Score({ run, metric }: { run: RunDetail; metric: string }) {
  const score = run.headline?.scores?.find((known) => known.metric === metric);
  return <Measured value={score?.value} low={score?.ci_low} high={score?.ci_high} />;
}
