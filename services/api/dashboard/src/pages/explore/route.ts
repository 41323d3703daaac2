import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { type Goal, textOf, textsOf } from '../../api/listing';
import { root } from '../../app/root';

export interface ExploreSearch {
  x?: string;
  y?: string;
  /** Which end of an axis is good; the Pareto front is that of both. */
  xgoal?: Goal;
  ygoal?: Goal;
  q?: string;
  where?: string[];
  /** Columns with a slider; what a slider leaves is among the filters. */
  bounds?: string[];
}

const GOALS: readonly Goal[] = ['higher', 'lower'];

export const explore = createRoute({
  getParentRoute: () => root,
  path: '/explore',
  validateSearch: (search: Record<string, unknown>): ExploreSearch => {
    const [x, y, q] = [textOf(search.x), textOf(search.y), textOf(search.q)];
    const xgoal = GOALS.find((goal) => goal === search.xgoal);
    const ygoal = GOALS.find((goal) => goal === search.ygoal);
    const [where, bounds] = [textsOf(search.where), textsOf(search.bounds).slice(0, 6)];
    return {
      ...(x && { x }),
      ...(y && { y }),
      ...(xgoal && { xgoal }),
      ...(ygoal && { ygoal }),
      ...(q && { q }),
      ...(where.length > 0 && { where }),
      ...(bounds.length > 0 && { bounds }),
    };
  },
  component: lazyRouteComponent(() => import('./ExplorePage'), 'ExplorePage'),
});
