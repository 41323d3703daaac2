import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { root } from '../../app/root';

export interface RegistrySearch {
  kind?: string;
  q?: string;
}

export const registry = createRoute({
  getParentRoute: () => root,
  path: '/registry',
  validateSearch: (search: Record<string, unknown>): RegistrySearch => ({
    ...(typeof search.kind === 'string' && search.kind !== '' && { kind: search.kind }),
    ...(typeof search.q === 'string' && search.q !== '' && { q: search.q }),
  }),
  component: lazyRouteComponent(() => import('./RegistryPage'), 'RegistryPage'),
});

export const registryEntry = createRoute({
  getParentRoute: () => root,
  path: '/registry/$kind/$name',
  component: lazyRouteComponent(() => import('./EntryPage'), 'EntryPage'),
});
