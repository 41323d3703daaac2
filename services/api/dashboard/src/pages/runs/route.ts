import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { type RowsFilter, rowsQuery, textOf, textsOf } from '../../api/listing';
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
  /** Ids of the runs that are chosen, separated by commas. */
  chosen?: string;
}

/** The rows that an address asks for. */
export function filterOf({ state, where = [], q, order, cursor }: RunsSearch): RowsFilter {
  return { where: [...(state ? [`state=${state}`] : []), ...where], q, order, cursor };
}

export const runs = createRoute({
  getParentRoute: () => root,
  path: '/runs',
  validateSearch: (search: Record<string, unknown>): RunsSearch => {
    const state = STATES.find((known) => known === search.state);
    const [q, order, cursor] = [textOf(search.q), textOf(search.order), textOf(search.cursor)];
    const [where, chosen] = [textsOf(search.where), textOf(search.chosen)];
    return {
      ...(state && { state }),
      ...(q && { q }),
      ...(where.length > 0 && { where }),
      ...(order && { order }),
      ...(cursor && { cursor }),
      ...(chosen && { chosen }),
    };
  },
  loaderDeps: ({ search }) => filterOf(search),
  // The rows are asked for while the code of the page is read, not after it.
  loader: ({ context, deps }) => void context.queries.prefetchQuery(rowsQuery(deps)),
  component: lazyRouteComponent(() => import('./RunsPage'), 'RunsPage'),
});
