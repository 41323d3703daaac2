import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { textOf, textsOf } from '../../api/listing';
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
  /** Filters of the API: COLUMN OPERATOR VALUE. */
  where?: string[];
  order?: string;
  /** The place in the list, as the page before it has given it. */
  cursor?: string;
}

export const runs = createRoute({
  getParentRoute: () => root,
  path: '/runs',
  validateSearch: (search: Record<string, unknown>): RunsSearch => {
    const state = STATES.find((known) => known === search.state);
    const [q, order, cursor] = [textOf(search.q), textOf(search.order), textOf(search.cursor)];
    const where = textsOf(search.where);
    return {
      ...(state && { state }),
      ...(q && { q }),
      ...(where.length > 0 && { where }),
      ...(order && { order }),
      ...(cursor && { cursor }),
    };
  },
  component: lazyRouteComponent(() => import('./RunsPage'), 'RunsPage'),
});
