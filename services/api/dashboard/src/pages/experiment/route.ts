import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { root } from '../../app/root';

export interface ExperimentSearch {
  metric?: string;
}

export const experiment = createRoute({
  getParentRoute: () => root,
  path: '/experiments/$id',
  validateSearch: (search: Record<string, unknown>): ExperimentSearch =>
    typeof search.metric === 'string' && search.metric !== '' ? { metric: search.metric } : {},
  component: lazyRouteComponent(() => import('./ExperimentPage'), 'ExperimentPage'),
});
