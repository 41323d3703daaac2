import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { textOf } from '../../api/listing';
import { root } from '../../app/root';

const KEYS = ['metric', 'speed', 'quality', 'axis', 'effect'] as const;

/** The metric of the matrix, the axes of the Pareto figure, and those of the sweep. */
export type ExperimentSearch = Partial<Record<(typeof KEYS)[number], string>>;

export const experiment = createRoute({
  getParentRoute: () => root,
  path: '/experiments/$id',
  validateSearch: (search: Record<string, unknown>): ExperimentSearch =>
    Object.fromEntries(KEYS.map((key) => [key, textOf(search[key])]).filter(([, value]) => value !== undefined)),
  component: lazyRouteComponent(() => import('./ExperimentPage'), 'ExperimentPage'),
});
