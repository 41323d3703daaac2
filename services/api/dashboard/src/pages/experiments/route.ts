import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { root } from '../../app/root';

export const EXPERIMENT_STATES = ['OPEN', 'DONE', 'PARTIAL', 'CANCELLED'] as const;

export interface ExperimentsSearch {
  state?: (typeof EXPERIMENT_STATES)[number];
}

export const experiments = createRoute({
  getParentRoute: () => root,
  path: '/experiments',
  validateSearch: (search: Record<string, unknown>): ExperimentsSearch => {
    const state = EXPERIMENT_STATES.find((known) => known === search.state);
    return state ? { state } : {};
  },
  component: lazyRouteComponent(() => import('./ExperimentsPage'), 'ExperimentsPage'),
});
