import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { root } from '../../app/root';
import { type Entry, isObject, MAX_IN_ADDRESS } from './entry';

export interface NewRunSearch {
  /** The run from which the form is filled. */
  from?: string;
  model?: string;
  task?: string;
  name?: string;
  /** What the form holds, where it is short. */
  entry?: Entry;
}

const TEXTS = ['from', 'model', 'task', 'name'] as const;

export const newRun = createRoute({
  getParentRoute: () => root,
  path: '/runs/new',
  validateSearch: (search: Record<string, unknown>): NewRunSearch => {
    const chosen: NewRunSearch = {};
    for (const key of TEXTS) {
      const value = search[key];
      // The router reads ?model=7 as a number.
      const text = typeof value === 'string' || typeof value === 'number' ? String(value) : '';
      if (text !== '' && text.length <= MAX_IN_ADDRESS) chosen[key] = text;
    }
    if (isObject(search.entry)) chosen.entry = search.entry as Entry;
    return chosen;
  },
  component: lazyRouteComponent(() => import('./NewRunPage'), 'NewRunPage'),
});
