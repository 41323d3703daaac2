/** The stages of a run, side by side, each with the share of its jobs that are done. */
import { isOpen, type RunDetail } from '../../api/queries';
import { count } from '../../ui/format';

const STAGES: readonly (readonly [string, readonly RunDetail['jobs'][number]['kind'][]])[] = [
  ['index', ['INDEX']],
  ['inference', ['GENERATE', 'IMPORT', 'MEMBER', 'COMBINE', 'JUDGE']],
  ['evaluation', ['SCORE']],
  ['report', ['REPORT']],
];

export function Stages({ run }: { run: RunDetail }) {
  return (
    <ol className="stages" aria-label="Stages">
      {STAGES.map(([stage, kinds]) => {
        const jobs = run.jobs.filter((job) => kinds.includes(job.kind));
        const done = jobs.filter((job) => job.state === 'DONE').length;
        const failed = jobs.filter((job) => job.state === 'FAILED').length;
        const running = jobs.filter((job) => job.state === 'RUNNING' || job.state === 'ASSIGNED').length;
        const tone = failed ? 'bad' : jobs.length > 0 && done === jobs.length ? 'good' : running ? 'busy' : 'wait';
        return (
          <li key={stage} className={tone}>
            <span>{stage}</span>
            <small>
              {jobs.length === 0
                ? isOpen(run)
                  ? 'not begun'
                  : 'no job of its own'
                : `${count(done)} of ${count(jobs.length)} ${jobs.length === 1 ? 'job' : 'jobs'}`}
              {failed ? `, ${count(failed)} failed` : ''}
            </small>
          </li>
        );
      })}
    </ol>
  );
}
