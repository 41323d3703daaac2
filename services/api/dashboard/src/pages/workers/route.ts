import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { root } from '../../app/root';

export interface WorkersSearch {
  /** Whether workers that are gone, ended drains and released quarantines are shown too. */
  past?: true;
}

export const workers = createRoute({
  getParentRoute: () => root,
  path: '/workers',
  validateSearch: (search: Record<string, unknown>): WorkersSearch =>
    search.past === true || search.past === 'true' ? { past: true } : {},
  component: lazyRouteComponent(() => import('./WorkersPage'), 'WorkersPage'),
});
