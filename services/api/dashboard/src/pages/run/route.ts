import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import type { ResultFilter } from '../../api/queries';
import { root } from '../../app/root';

export const TABS = ['overview', 'samples', 'performance', 'configuration', 'provenance'] as const;
export type Tab = (typeof TABS)[number];

export interface RunSearch extends ResultFilter {
  tab?: Tab;
}

const STATUSES = ['ok', 'error', 'quarantined'] as const;
const OUTCOMES = ['answered', 'model_failure', 'infrastructure_failure'] as const;

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

export const run = createRoute({
  getParentRoute: () => root,
  path: '/runs/$id',
  validateSearch: (search: Record<string, unknown>): RunSearch => {
    const chosen: RunSearch = {
      tab: TABS.find((tab) => tab === search.tab) as Tab,
      status: STATUSES.find((status) => status === search.status),
      outcome: OUTCOMES.find((outcome) => outcome === search.outcome),
      doc_class: text(search.doc_class),
      question_type: text(search.question_type),
    };
    return Object.fromEntries(Object.entries(chosen).filter(([, value]) => value !== undefined));
  },
  component: lazyRouteComponent(() => import('./RunPage'), 'RunPage'),
});
