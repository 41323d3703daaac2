import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { root } from '../../app/root';
import { type Form, readForm } from './form';

export const loads = createRoute({
  getParentRoute: () => root,
  path: '/load',
  validateSearch: (search: Record<string, unknown>): Partial<Form> => readForm(search),
  component: lazyRouteComponent(() => import('./LoadsPage'), 'LoadsPage'),
});

export const load = createRoute({
  getParentRoute: () => root,
  path: '/load/$id',
  component: lazyRouteComponent(() => import('./LoadPage'), 'LoadPage'),
});
