import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { textOf } from '../../api/listing';
import { root } from '../../app/root';

export interface RegistrySearch {
  kind?: string;
  q?: string;
}

export const registry = createRoute({
  getParentRoute: () => root,
  path: '/registry',
  validateSearch: (search: Record<string, unknown>): RegistrySearch => {
    const [kind, q] = [textOf(search.kind), textOf(search.q)];
    return { ...(kind && { kind }), ...(q && { q }) };
  },
  component: lazyRouteComponent(() => import('./RegistryPage'), 'RegistryPage'),
});

export const registryEntry = createRoute({
  getParentRoute: () => root,
  path: '/registry/$kind/$name',
  /** The words by which the values are filtered. */
  validateSearch: (search: Record<string, unknown>): { q?: string } => {
    const q = textOf(search.q);
    return q ? { q } : {};
  },
  component: lazyRouteComponent(() => import('./EntryPage'), 'EntryPage'),
});
