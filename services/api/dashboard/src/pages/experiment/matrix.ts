/** The matrix of an experiment: targets down, tasks across, the runs of a cell in it; everything here is pure. */
import type { Run } from '../../api/queries';

type Cell = Pick<Run, 'id' | 'target' | 'task' | 'headline'>;

export interface Matrix<Shown extends Cell> {
  targets: string[];
  tasks: string[];
  /** The runs of a target and a task: several where the matrix has more axes. */
  at: (target: string, task: string) => Shown[];
}

export function matrixOf<Shown extends Cell>(runs: readonly Shown[]): Matrix<Shown> {
  const distinct = (texts: readonly string[]) => [...new Set(texts)].sort();
  return {
    targets: distinct(runs.map((run) => run.target)),
    tasks: distinct(runs.map((run) => run.task)),
    at: (target, task) => runs.filter((run) => run.target === target && run.task === task),
  };
}

/** The metrics of all runs, the primary ones first. */
export function metricsOf(runs: readonly Cell[]): string[] {
  const scores = runs.map((run) => run.headline?.scores ?? []);
  const first = scores.flatMap((known) => known.slice(0, 1));
  return [...new Set([...first, ...scores.flat()].map((score) => score.metric))];
}

/** How strongly a value is coloured: itself on the scale from 0 to 1, which says nothing of good and bad; null beyond it. */
export function shadeOf(value: number | null | undefined): number | null {
  return typeof value === 'number' && value >= 0 && value <= 1 ? value : null;
}
