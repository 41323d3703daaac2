import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { textOf, textsOf } from '../../api/listing';
import type { RunState } from '../../api/queries';
import { root } from '../../app/root';
import { type Entry, isObject } from '../new-run/entry';
import { STATES } from '../runs/route';

export const TABS = ['base', 'builder', 'history', 'models'] as const;
export type Tab = (typeof TABS)[number];

export interface PipelinesSearch {
  tab?: Tab;
  /** The pipeline that is asked, filtered by, or edited. */
  pipeline?: string;
  /** The session that is shown. */
  session?: string;
  /** Sessions that are chosen or compared, the first of which is the one that others differ from. */
  compare?: string[];
  /** Whether only the steps in which the compared sessions differ are shown. */
  differing?: true;
  state?: RunState;
  cursor?: string;
  /** The model whose estimate is shown. */
  model?: string;
  /** Name and entry of the draft. */
  name?: string;
  draft?: Entry;
}

export const pipelines = createRoute({
  getParentRoute: () => root,
  path: '/pipelines',
  validateSearch: (search: Record<string, unknown>): PipelinesSearch => {
    const tab = TABS.find((known) => known === search.tab);
    const state = STATES.find((known) => known === search.state);
    const compare = textsOf(search.compare).slice(0, 2);
    const texts = ['pipeline', 'session', 'cursor', 'model', 'name'] as const;
    return {
      ...(tab && tab !== 'base' && { tab }),
      ...(state && { state }),
      ...(compare.length > 0 && { compare }),
      ...(search.differing === true && { differing: true }),
      ...(isObject(search.draft) && { draft: search.draft as Entry }),
      ...Object.fromEntries(texts.map((key) => [key, textOf(search[key])]).filter(([, value]) => value !== undefined)),
    };
  },
  component: lazyRouteComponent(() => import('./PipelinesPage'), 'PipelinesPage'),
});
