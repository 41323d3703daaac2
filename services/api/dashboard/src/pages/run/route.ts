import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { root } from '../../app/root';
import { readSampleSearch, type SampleSearch, text } from './selection';

export const TABS = ['overview', 'samples', 'performance', 'resources', 'logs', 'configuration', 'provenance'] as const;
export type Tab = (typeof TABS)[number];

export interface RunSearch extends SampleSearch {
  tab?: Tab;
  /** The column by whose groups the overview shows the metrics. */
  by?: string;
  /** The log that is shown, a line of it, and the text that its lines contain, or values of the configuration. */
  log?: string;
  line?: number;
  find?: string;
}

function whole(value: unknown): number | undefined {
  const number = Number(value);
  return Number.isSafeInteger(number) && number > 0 ? number : undefined;
}

export const run = createRoute({
  getParentRoute: () => root,
  path: '/runs/$id',
  validateSearch: (search: Record<string, unknown>): RunSearch => {
    const tab = TABS.find((known) => known === search.tab);
    const [by, log, line, find] = [text(search.by), text(search.log), whole(search.line), text(search.find)];
    return {
      ...readSampleSearch(search),
      ...(tab !== undefined && { tab }),
      ...(by !== undefined && { by }),
      ...(log !== undefined && { log }),
      ...(line !== undefined && { line }),
      ...(find !== undefined && { find }),
    };
  },
  component: lazyRouteComponent(() => import('./RunPage'), 'RunPage'),
});
