/** The means over the loads of an experiment that differ in their seed alone, with Student's t intervals. */
import { useQuery } from '@tanstack/react-query';
import { api, body, type Schemas } from '../../api/client';
import { count, milliseconds, perSecond } from '../../ui/format';
import { Loaded } from '../../ui/Loaded';
import { Scroll } from '../../ui/Scroll';
import type { ExperimentDetail } from '../experiments/queries';

const POLL_MS = 5_000;

/** The numbers by which repeats differ: that of their random choices alone. */
const SEEDS: ReadonlySet<string> = new Set(['spec.dataset.seed', 'spec.scenario.seed']);

/** The numbers that a sweep has changed: seeds are no axis. */
export function sweptOf(axes: readonly { column: string }[]): string[] {
  return axes.map(({ column }) => column).filter((column) => !SEEDS.has(column));
}

/** Whether the runs are loads that differ in nothing but their seed. */
export function areRepeats(runs: ExperimentDetail['runs'], axes: readonly { column: string }[]): boolean {
  return runs.length > 1 && runs.every((run) => run.task === 'load') && sweptOf(axes).length === 0;
}

export function Means({ experiment }: { experiment: ExperimentDetail }) {
  const isOpen = experiment.state === 'OPEN';
  const query = useQuery({
    queryKey: ['experiments', experiment.id, 'means', experiment.state],
    queryFn: ({ signal }) => {
      const params = { path: { experiment_id: experiment.id } };
      return body(api.GET('/api/v1/loads/repeats/{experiment_id}', { params, signal }));
    },
    retry: false,
    refetchInterval: ({ state }) => ((state.error && !state.data) || !isOpen ? false : POLL_MS),
  });
  return (
    <Loaded query={query} what="the means of the repeats">
      {(means) => <MeansTable means={means} />}
    </Loaded>
  );
}

export function MeansTable({ means }: { means: Schemas['LoadMeans'] }) {
  const rows = Object.entries(means.metrics);
  return (
    <section className="card" aria-label="Means of the repeats">
      <header>
        <h2>Means of the repeats</h2>
        <span className="sub">
          {count(means.ended)} of {count(means.repeats)} have ended; Student’s t interval at 95 %
        </span>
      </header>
      {means.valid === false ? (
        <p className="stale">A condition of a measurement did not hold in one of them: its load says which.</p>
      ) : null}
      {rows.length === 0 ? (
        <p className="body sub">They are here as soon as the first load has its report.</p>
      ) : (
        <Scroll label="Table of means">
          <table className="data">
            <thead>
              <tr>
                <th scope="col">Metric</th>
                {['Mean', 'From', 'To', 'Deviation', 'Loads'].map((name) => (
                  <th key={name} scope="col" className="num">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map(([name, value]) => (
                <tr key={name}>
                  <th scope="row">{named(name)}</th>
                  {[value.mean, value.low, value.high, value.sd].map((number, no) => (
                    // biome-ignore lint/suspicious/noArrayIndexKey: the columns never move
                    <td key={no} className="num">
                      {shown(name, number)}
                    </td>
                  ))}
                  <td className="num">
                    {count(value.n)}
                    {value.reason ? <small className="sub"> {value.reason}</small> : null}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </section>
  );
}

const NAMES: Readonly<Record<string, string>> = { ttft: 'TTFT', tpot: 'TPOT', latency: 'Latency' };

function named(name: string): string {
  const [time = '', percentile] = name.split('_');
  if (NAMES[time]) return `${NAMES[time]} ${percentile}`;
  return name === 'goodput_per_s' ? 'Goodput' : name === 'requests_per_s' ? 'Requests' : 'Output';
}

function shown(name: string, value: number | null): string {
  if (!name.endsWith('_per_s')) return milliseconds(value);
  return perSecond(value, name === 'output_tokens_per_s' ? 'tokens' : undefined);
}
