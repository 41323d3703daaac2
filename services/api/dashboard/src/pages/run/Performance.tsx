/** The speeds of a run: whether they count as measurements, and every distribution with its percentiles. */
import { useMemo } from 'react';
import type { RunDetail } from '../../api/queries';
import { Chart } from '../../ui/Chart';
import { bytes, count, milliseconds, percent, perSecond, seconds, significant, words } from '../../ui/format';
import { Empty } from '../../ui/Notes';
import { Scroll } from '../../ui/Scroll';

const NAMES: Record<string, string> = {
  latency_ms: 'Latency',
  ttft_user_ms: 'TTFT, from the scheduled instant',
  ttft_service_ms: 'TTFT, from the sent instant',
  tpot_ms: 'TPOT',
  queue_ms: 'Queue',
};
const SHORT: Record<string, string> = {
  latency_ms: 'Latency',
  ttft_user_ms: 'TTFT, scheduled',
  ttft_service_ms: 'TTFT, sent',
  tpot_ms: 'TPOT',
  queue_ms: 'Queue',
};
type Spread = NonNullable<RunDetail['performance']>['times'][string];

export function Performance({ run }: { run: RunDetail }) {
  const { performance } = run;
  if (!performance || performance.validity === null) {
    return (
      <Empty title="Nothing was timed">
        <p className="note-text">Speeds are here once the run has a report, and only if it has sent requests itself.</p>
      </Empty>
    );
  }
  const isValid = performance.validity === 'valid';
  return (
    <div className="stack">
      <p className={isValid ? 'sub' : 'stale'}>
        {isValid
          ? 'All conditions of a speed measurement held.'
          : `These speeds are no measurement: ${words(performance.validity)}. They show only what happened.`}
      </p>
      <dl className="figures">
        <Figure name="Output" value={perSecond(performance.output_tokens_per_s, 'tokens')} />
        <Figure name="Samples" value={perSecond(performance.samples_per_s)} />
        <Figure
          name="Goodput"
          value={perSecond(performance.goodput_per_s)}
          note={percent(performance.goodput_share, 1)}
        />
        <Figure
          name="Measured for"
          value={seconds(performance.window_s)}
          note={`${count(performance.parts)} claim${performance.parts === 1 ? '' : 's'}`}
        />
        <Figure
          name="Peak memory"
          value={bytes(performance.peak_memory_bytes)}
          note={words(performance.peak_memory_of ?? '')}
        />
        <Figure
          name="Energy per answer"
          value={performance.energy_j_per_answer === null ? '–' : `${significant(performance.energy_j_per_answer)} J`}
        />
      </dl>
      <Speeds times={performance.times} gates={performance.gates} />
    </div>
  );
}

/** The tables of times and of the conditions under which they are a measurement. */
export function Speeds({ times, gates }: Pick<NonNullable<RunDetail['performance']>, 'times' | 'gates'>) {
  return (
    <>
      <div className="grid wide">
        <section className="card" aria-label="Times">
          <header>
            <h2>Times</h2>
          </header>
          <Scroll label="Table of times">
            <Times times={times} />
          </Scroll>
        </section>
        <section className="card" aria-label="Percentiles">
          <header>
            <h2>Percentiles</h2>
          </header>
          <div className="body">
            <Percentiles times={times} />
          </div>
        </section>
      </div>
      <section className="card" aria-label="Conditions of a measurement">
        <header>
          <h2>Conditions of a measurement</h2>
        </header>
        <Scroll label="Table of conditions">
          <table className="data">
            <thead>
              <tr>
                <th scope="col">Condition</th>
                <th scope="col">Held</th>
                <th scope="col" className="num">
                  Value
                </th>
                <th scope="col" className="num">
                  Limit
                </th>
              </tr>
            </thead>
            <tbody>
              {gates.map((gate) => (
                <tr key={gate.name}>
                  <td>{words(gate.name)}</td>
                  <td>
                    <span className={`badge ${gate.ok ? 'good' : 'bad'}`}>{gate.ok ? '✓ yes' : '✕ no'}</span>
                  </td>
                  <td className="num">{significant(gate.value)}</td>
                  <td className="num">
                    {gate.is_least ? '≥' : '≤'} {significant(gate.limit)}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      </section>
    </>
  );
}

export function Figure({ name, value, note }: { name: string; value: string; note?: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {value}
        {note ? <small>{note}</small> : null}
      </dd>
    </div>
  );
}

function Times({ times }: { times: Readonly<Record<string, Spread>> }) {
  return (
    <table className="data">
      <thead>
        <tr>
          <th scope="col">Time</th>
          {['n', 'mean', 'p50', 'p90', 'p99', 'max'].map((name) => (
            <th key={name} scope="col" className={name === 'n' || name === 'mean' ? 'num from-md' : 'num'}>
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {Object.entries(times).map(([name, spread]) => (
          <tr key={name}>
            <th scope="row">{NAMES[name] ?? words(name)}</th>
            <td className="num from-md">{count(spread.n)}</td>
            <td className="num from-md">{milliseconds(spread.mean)}</td>
            <td className="num">{milliseconds(spread.p50)}</td>
            <td className="num">{milliseconds(spread.p90)}</td>
            <td className="num">{milliseconds(spread.p99)}</td>
            <td className="num">{milliseconds(spread.max)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Percentiles({ times }: { times: Readonly<Record<string, Spread>> }) {
  const { data, layout } = useMemo(() => {
    const shown = Object.entries(times).filter(([, spread]) => spread.p50 !== null);
    const names = shown.map(([name]) => SHORT[name] ?? words(name));
    const traces = (['p50', 'p90', 'p99'] as const).map((percentile, index) => ({
      type: 'scatter' as const,
      mode: 'markers',
      name: percentile,
      x: shown.map(([, spread]) => spread[percentile]),
      y: shown.map(([name]) => name),
      marker: {
        size: 10,
        symbol: ['circle', 'diamond', 'square'][index],
        color: ['#4c6ef5', '#e8890c', '#c92a2a'][index],
      },
      hovertemplate: `${percentile}: %{x:.3g} ms<extra></extra>`,
    }));
    const keys = shown.map(([name]) => name);
    return {
      data: traces,
      layout: {
        showlegend: true,
        legend: { orientation: 'h', y: 1.15 },
        xaxis: { type: 'log', title: { text: 'milliseconds, logarithmic' } },
        yaxis: { tickvals: keys, ticktext: names, autorange: 'reversed' },
      },
    };
  }, [times]);
  return (
    <Chart
      data={data}
      layout={layout}
      alt="The 50th, 90th and 99th percentile of each time; the table has the numbers."
    />
  );
}
