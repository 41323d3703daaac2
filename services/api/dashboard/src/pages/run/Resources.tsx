/** Memory, utilisation and power over the time of a run, on one clock with its phases and claims; a table stands below. */
import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { api, body, type Schemas } from '../../api/client';
import { isOpen, type RunDetail } from '../../api/queries';
import { bytes, count, percent, seconds, significant, words } from '../../ui/format';
import { Loaded } from '../../ui/Loaded';
import { Empty } from '../../ui/Notes';
import { Scroll } from '../../ui/Scroll';
import { LiveResources } from './LiveResources';
import { StripChart } from './StripChart';
import { bandsOf, stripsOf } from './strips';
import './logs.css';

type Resources = Schemas['RunResources'];

const OPEN_MS = 10_000;
const BAND_PX = 22;

export function Resources({ run }: { run: RunDetail }) {
  const query = useQuery({
    queryKey: ['resources', run.id],
    queryFn: ({ signal }) =>
      body(api.GET('/api/v1/runs/{run_id}/resources', { params: { path: { run_id: run.id } }, signal })),
    refetchInterval: isOpen(run) ? OPEN_MS : false,
  });
  return (
    <Loaded query={query} what="the resources">
      {(resources) => (
        <div className="stack">
          {resources.missing?.map((text) => (
            <p key={text} className="stale">
              {text}
            </p>
          ))}
          {isOpen(run) ? <LiveResources id={run.id} /> : null}
          {resources.series.length === 0 && !isOpen(run) ? (
            <Empty title="No series is stored">
              <p className="note-text">
                The run sent no requests of its own, or its workers could not store their series.
              </p>
            </Empty>
          ) : null}
          <Strips resources={resources} now={isOpen(run) ? query.dataUpdatedAt : undefined} />
          <Spans resources={resources} />
        </div>
      )}
    </Loaded>
  );
}

function Strips({ resources, now }: { resources: Resources; now: number | undefined }) {
  const strips = useMemo(() => stripsOf(resources), [resources]);
  const { bands, from, to } = useMemo(() => bandsOf(resources, now), [resources, now]);
  if (bands.length === 0) return null;
  return (
    <section className="card" aria-label="Resources over time">
      <header>
        <h2>Over time</h2>
        <span className="sub">{seconds((to - from) / 1000)} from the first claim, all on one clock</span>
      </header>
      <div className="body strips">
        <svg
          className="bands"
          viewBox={`0 0 1000 ${bands.length * BAND_PX}`}
          height={bands.length * BAND_PX}
          preserveAspectRatio="none"
          role="img"
          aria-label="When phases and claims began and ended; the table below has the times"
        >
          {bands.map((band, no) => (
            <rect
              key={`${band.kind}-${band.id}`}
              className={band.kind}
              x={1000 * band.from}
              width={Math.max(2, 1000 * (band.to - band.from))}
              y={no * BAND_PX + 3}
              height={BAND_PX - 6}
            >
              <title>{band.title}</title>
            </rect>
          ))}
        </svg>
        <ul className="band-names">
          {bands.map((band) => (
            <li key={`${band.kind}-${band.id}`} style={{ height: BAND_PX }}>
              {band.name}
            </li>
          ))}
        </ul>
        {strips.map((strip) => (
          <StripChart key={strip.name} strip={strip} seconds={(to - from) / 1000} />
        ))}
      </div>
    </section>
  );
}

function Spans({ resources }: { resources: Resources }) {
  const { from } = bandsOf(resources);
  const series = new Map(resources.series.map((own) => [own.claim_id, own]));
  return (
    <section className="card" aria-label="Claims and phases">
      <header>
        <h2>Claims and phases</h2>
      </header>
      <Scroll label="Table of claims and phases">
        <table className="data">
          <thead>
            <tr>
              <th scope="col">Span</th>
              <th scope="col" className="from-md">
                Machine
              </th>
              <th scope="col">State</th>
              <th scope="col" className="num">
                From
              </th>
              <th scope="col" className="num">
                For
              </th>
              <th scope="col" className="num">
                CPU, mean
              </th>
              <th scope="col" className="num">
                Peak memory
              </th>
              <th scope="col" className="num from-md">
                Power, mean
              </th>
            </tr>
          </thead>
          <tbody>
            {resources.spans.map((span) => {
              const own = span.kind === 'claim' ? series.get(span.id) : undefined;
              return (
                <tr key={`${span.kind}-${span.id}`}>
                  <th scope="row">
                    {words(span.name.toLowerCase())} <span className="sub">{span.kind}</span>
                  </th>
                  <td className="from-md">{span.host ?? ''}</td>
                  <td>{(span.state ?? '').toLowerCase()}</td>
                  <td className="num">{seconds((span.start_ms - from) / 1000)}</td>
                  <td className="num">
                    {span.end_ms === null ? 'open' : seconds((span.end_ms - span.start_ms) / 1000)}
                  </td>
                  <td className="num">{shown(own, 'cpu_util_percent', (value) => percent(value / 100))}</td>
                  <td className="num">{peak(own)}</td>
                  <td className="num from-md">
                    {shown(own, 'power_accelerator_w', (value) => `${significant(value)} W`)}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </Scroll>
      <p className="sub foot">
        {count(resources.series.reduce((sum, own) => sum + own.samples, 0))} samples of devices; means and peaks are
        over all of them
      </p>
    </section>
  );
}

type Series = Resources['series'][number];

function shown(series: Series | undefined, name: string, show: (value: number) => string): string {
  const value = series?.overall_mean[name];
  return value === undefined || value === null ? '–' : show(value);
}

function peak(series: Series | undefined): string {
  return bytes(series?.overall_max.accelerator_memory_used_bytes ?? series?.overall_max.engine_rss_bytes);
}
