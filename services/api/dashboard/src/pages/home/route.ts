import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { root } from '../../app/root';

export const home = createRoute({
  getParentRoute: () => root,
  path: '/',
  component: lazyRouteComponent(() => import('./HomePage'), 'HomePage'),
});
