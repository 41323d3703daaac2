import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { textOf, textsOf } from '../../api/listing';
import { root } from '../../app/root';

export interface LeaderboardSearch {
  task?: string;
  metric?: string;
  where?: string[];
  /** Ids of the runs that are chosen, separated by commas. */
  chosen?: string;
}

export const leaderboard = createRoute({
  getParentRoute: () => root,
  path: '/leaderboard',
  validateSearch: (search: Record<string, unknown>): LeaderboardSearch => {
    const [task, metric, where] = [textOf(search.task), textOf(search.metric), textsOf(search.where)];
    const chosen = textOf(search.chosen);
    return {
      ...(task && { task }),
      ...(metric && { metric }),
      ...(where.length > 0 && { where }),
      ...(chosen && { chosen }),
    };
  },
  component: lazyRouteComponent(() => import('./LeaderboardPage'), 'LeaderboardPage'),
});
