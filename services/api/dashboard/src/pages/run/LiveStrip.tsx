/** What an open run does now: its last requests, its devices, and the newest line of its logs. */
import { useLogLines, useResourcesLive, useSamplesLive } from '../../api/live';
import { bytes, count, milliseconds, percent } from '../../ui/format';
import { slowestOf } from './strips';
import './live-strip.css';

const SHOWN = 60;

export function LiveStrip({ id }: { id: string }) {
  const { samples, samplesLeftOut } = useSamplesLive(id);
  const now = useResourcesLive(id).at(-1);
  const line = useLogLines(id).lines.at(-1);
  if (samples.length === 0 && now === undefined && line === undefined) return null;
  const shown = samples.slice(-SHOWN);
  const newest = shown.at(-1);
  const slowest = slowestOf(shown);
  const scale = Math.max(1, slowest ?? 0);
  const failed = shown.filter((sample) => sample.status !== 'ok').length;
  return (
    <section className="card live-strip" aria-label="Now">
      <header>
        <h2>Now</h2>
        {newest ? (
          <span className="sub">
            last <bdi>{newest.key}</bdi>, {milliseconds(newest.latency_ms)}
          </span>
        ) : null}
      </header>
      <div className="body">
        {shown.length > 0 ? (
          <>
            <div
              className="ticks"
              role="img"
              aria-label={`Latency of the last ${shown.length} requests; ${failed} of them failed`}
            >
              {shown.map((sample) => (
                <span
                  key={`${sample.phase}-${sample.ordinal}`}
                  className={sample.status === 'ok' ? 'ok' : 'failed'}
                  style={{ height: `${Math.max(8, ((sample.latency_ms ?? scale) / scale) * 100)}%` }}
                  title={`${sample.key}: ${sample.error_code ?? milliseconds(sample.latency_ms)}`}
                />
              ))}
            </div>
            <p className="sub">
              Last {count(shown.length)} requests, up to {milliseconds(slowest)}
              {failed ? `, ${count(failed)} failed` : ''}
              {samplesLeftOut ? `; ${count(samplesLeftOut)} more since this page was opened` : ''}
            </p>
          </>
        ) : null}
        {now ? (
          <p>
            CPU {percent(now.cpu_util_percent / 100)} · memory {bytes(now.memory_used_bytes)}
            {now.engine_rss_bytes ? ` · engine ${bytes(now.engine_rss_bytes)}` : ''}
            {now.accelerator_memory_used_bytes ? ` · accelerators ${bytes(now.accelerator_memory_used_bytes)}` : ''}
            {now.accelerator_util_percent === null || now.accelerator_util_percent === undefined
              ? ''
              : ` at ${percent(now.accelerator_util_percent / 100)}`}
          </p>
        ) : null}
        {line ? (
          <p className="last-line">
            <span className="sub">{line.source}</span> <code>{line.text}</code>
          </p>
        ) : null}
      </div>
    </section>
  );
}
