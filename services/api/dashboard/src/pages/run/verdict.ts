/** The run in one or two sentences that are made from its numbers. */
import { isOpen, type RunDetail } from '../../api/queries';
import { count, milliseconds, score, words } from '../../ui/format';

type Told = Pick<RunDetail, 'state' | 'target' | 'task' | 'done' | 'total' | 'failed' | 'headline' | 'reason'> & {
  stopping?: RunDetail['stopping'];
};

export function verdictOf(run: Told): string {
  const first = run.headline?.scores?.[0];
  if (!first) {
    if (isOpen(run)) return `${run.target} on ${run.task}: no score yet.`;
    return run.state === 'FAILED'
      ? `${run.target} has no result on ${run.task}.`
      : `${run.target} has no score on ${run.task}.`;
  }
  const of = `${count(first.n)} ${first.n === 1 ? 'answer' : 'answers'}`;
  const range =
    first.ci_low === null || first.ci_low === undefined || first.ci_high === null || first.ci_high === undefined
      ? ', without an interval'
      : ` (95 % interval ${score(first.ci_low)} to ${score(first.ci_high)})`;
  const value =
    first.value === null
      ? `${run.target} has no value of ${words(first.metric)} on ${run.task}.`
      : `${run.target} reaches ${words(first.metric)} ${score(first.value)}${range} on ${of} of ${run.task}.`;
  const left =
    run.total !== null && run.done < run.total
      ? (stopped(run) ?? ` Only ${count(run.done)} of ${count(run.total)} samples are done.`)
      : '';
  const failed = run.failed > 0 ? ` ${count(run.failed)} of its requests failed.` : '';
  const speed =
    run.headline?.validity === 'valid' && run.headline.latency_p50_ms
      ? ` Half of the answers take at most ${milliseconds(run.headline.latency_p50_ms)}.`
      : '';
  return value + left + failed + speed;
}

/** That its stop rule has ended it, and what the rule has shown; undefined for other runs. */
function stopped({ stopping, done, total }: Told): string | undefined {
  const { rule, state, baseline_name: baseline } = stopping ?? {};
  if (typeof rule !== 'string' || typeof state !== 'string') return undefined;
  const than = typeof baseline === 'string' ? ` against ${baseline}` : '';
  return ` Its stop rule ended it after ${count(done)} of ${count(total)} samples: ${rule}${than} is ${words(state)}.`;
}
