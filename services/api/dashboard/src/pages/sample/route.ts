import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { root } from '../../app/root';
import { readSampleSearch } from '../run/selection';

export const sample = createRoute({
  getParentRoute: () => root,
  path: '/runs/$id/samples/$sid',
  validateSearch: readSampleSearch,
  component: lazyRouteComponent(() => import('./SamplePage'), 'SamplePage'),
});
