/** A run as tables show it, from a row of the list or from a whole run; everything here is pure. */
import type { RunRow } from '../../api/listing';
import type { Run } from '../../api/queries';

export type Listed = Omit<RunRow, 'has_note' | 'tags' | 'backend' | 'dataset' | 'scenario' | 'ttft_p50_ms'> &
  Partial<Pick<RunRow, 'has_note' | 'tags'>> & { waits_for?: Run['waits_for'] };

export function listedOf(run: Run): Listed {
  const { headline } = run;
  const first = headline?.scores?.[0];
  return {
    id: run.id,
    experiment_id: run.experiment_id ?? null,
    name: run.name,
    state: run.state,
    reason: run.reason ?? null,
    target: run.target,
    task: run.task,
    is_paused: run.is_paused,
    is_cancelling: run.is_cancelling,
    priority: run.priority,
    total: run.total ?? null,
    done: run.done,
    failed: run.failed,
    score: first
      ? {
          metric: first.metric,
          value: first.value,
          low: first.ci_low,
          high: first.ci_high,
          n: first.n,
        }
      : null,
    latency_p50_ms: headline?.latency_p50_ms ?? null,
    latency_p99_ms: headline?.latency_p99_ms ?? null,
    output_tokens_per_s: headline?.output_tokens_per_s ?? null,
    validity: headline?.validity ?? null,
    peak_memory_bytes: headline?.peak_memory_bytes ?? null,
    cost_total: headline?.cost_total ?? null,
    cost_currency: headline?.cost_currency ?? null,
    created_at: run.created_at,
    started_at: run.started_at ?? null,
    finished_at: run.finished_at ?? null,
    waits_for: run.waits_for,
  };
}

/** Rows of lists have this many characters of a reason. */
const CUT_REASON = 120;

/** The reason of a run, marked where a row has only its beginning. */
export function cutReason(reason: string): string {
  return reason.length === CUT_REASON ? `${reason} …` : reason;
}

/** How long a run has run, in seconds; null where it has not begun. */
export function ranFor(run: Pick<Listed, 'started_at' | 'finished_at'>, now: number = Date.now()): number | null {
  if (!run.started_at) return null;
  return Math.max(0, ((run.finished_at ? Date.parse(run.finished_at) : now) - Date.parse(run.started_at)) / 1000);
}
