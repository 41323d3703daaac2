import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { root } from '../../app/root';

export interface CompareSearch {
  /** Ids of runs separated by commas, the baseline first. */
  runs?: string;
  /** The run that is shown against the baseline, where several are compared. */
  other?: string;
  /** Which flips are listed. */
  flip?: 'broke' | 'mended';
  /** The policy of a gate, as YAML. */
  gate?: string;
}

const FLIPS = ['broke', 'mended'] as const;

export const compare = createRoute({
  getParentRoute: () => root,
  path: '/compare',
  validateSearch: (search: Record<string, unknown>): CompareSearch => {
    const flip = FLIPS.find((known) => known === search.flip);
    return {
      ...(typeof search.runs === 'string' && search.runs !== '' && { runs: search.runs }),
      ...(typeof search.other === 'string' && search.other !== '' && { other: search.other }),
      ...(flip && { flip }),
      ...(typeof search.gate === 'string' && search.gate.trim() !== '' && { gate: search.gate }),
    };
  },
  component: lazyRouteComponent(() => import('./ComparePage'), 'ComparePage'),
});
