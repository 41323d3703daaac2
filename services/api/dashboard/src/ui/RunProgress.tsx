/** How far a run is: a bar, the stage, rate and time to go, from the live feed where it has news. */
import { useProgress } from '../api/live';
import { isOpen, type Progress, type Run } from '../api/queries';
import { bytes, count, perSecond, seconds } from './format';

type Shown = Pick<Run, 'id' | 'name' | 'state' | 'done' | 'failed'> & {
  total?: number | null | undefined;
  waits_for?: Run['waits_for'] | undefined;
};

export function RunProgress({ run, progress: stored }: { run: Shown; progress?: Progress | null | undefined }) {
  const progress = useProgress(run.id) ?? stored ?? undefined;
  if (!isOpen(run)) return null;
  const done = progress?.done ?? run.done;
  const total = progress ? progress.total : run.total;
  const share = total ? Math.min(1, done / total) : null;
  return (
    <div className="progress">
      <div
        className="track"
        role="progressbar"
        aria-label={`Progress of ${run.name}`}
        aria-valuemin={0}
        aria-valuemax={100}
        {...(share !== null && { 'aria-valuenow': Math.round(share * 100) })}
      >
        <span style={{ width: `${(share ?? 0) * 100}%` }} />
      </div>
      <p>{progressText(run, progress)}</p>
    </div>
  );
}

/** `inference: 250 of 1,000 · 12/s · 1 m 02 s to go`, or what the run waits for. */
export function progressText(run: Shown, progress: Progress | undefined): string {
  const waits = progress?.waits_for ?? run.waits_for?.message;
  if (progress === undefined) return waits ?? `${count(run.done)} of ${count(run.total)}`;
  const show = progress.unit === 'bytes' ? bytes : count;
  const parts = [`${progress.stage}: ${show(progress.done)}${progress.total ? ` of ${show(progress.total)}` : ''}`];
  if (progress.rate_per_s)
    parts.push(progress.unit === 'bytes' ? `${bytes(progress.rate_per_s)}/s` : perSecond(progress.rate_per_s));
  if (progress.eta_s !== null && progress.eta_s !== undefined) parts.push(`${seconds(progress.eta_s)} to go`);
  if (progress.failed) parts.push(`${count(progress.failed)} failed`);
  return waits ? `${parts.join(' · ')} · ${waits}` : parts.join(' · ');
}
