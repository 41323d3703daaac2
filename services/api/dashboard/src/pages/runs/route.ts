import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import type { RunState } from '../../api/queries';
import { root } from '../../app/root';

export const STATES: readonly RunState[] = [
  'QUEUED',
  'INDEXED',
  'RUNNING',
  'SUCCEEDED',
  'PARTIAL',
  'FAILED',
  'CANCELLED',
];

export interface RunsSearch {
  state?: RunState;
  q?: string;
}

export const runs = createRoute({
  getParentRoute: () => root,
  path: '/runs',
  validateSearch: (search: Record<string, unknown>): RunsSearch => {
    const state = STATES.find((known) => known === search.state);
    const q = typeof search.q === 'string' ? search.q : '';
    return { ...(state && { state }), ...(q && { q }) };
  },
  component: lazyRouteComponent(() => import('./RunsPage'), 'RunsPage'),
});
