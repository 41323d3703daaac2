import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { root } from '../../app/root';

export const health = createRoute({
  getParentRoute: () => root,
  path: '/health',
  component: lazyRouteComponent(() => import('./HealthPage'), 'HealthPage'),
});
