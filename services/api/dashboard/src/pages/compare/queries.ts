/** What the comparison reads: the paired comparison, and the answers of both runs to the samples that flipped. */
import { queryOptions } from '@tanstack/react-query';
import { api, body, type Schemas } from '../../api/client';

export type Compared = Schemas['ComparedRun'];
export type RunsComparison = Schemas['RunsComparison'];
export type Side = Schemas['ComparedSide'];
export type Sample = Schemas['SampleRow'];
export type Flip = 'broke' | 'mended';

const MAX_FLIPS = 100;

/** The comparison, by the policy of a gate where one is given. */
export const comparisonQuery = (ids: readonly string[], gate?: string) =>
  queryOptions({
    queryKey: ['comparison', ids, gate],
    queryFn: ({ signal }) =>
      gate === undefined
        ? body(api.GET('/api/v1/comparisons', { params: { query: { runs: ids.join(',') } }, signal }))
        : body(api.POST('/api/v1/comparisons', { body: { runs: [...ids], gate_yaml: gate }, signal })),
    enabled: ids.length > 1,
    staleTime: 60_000,
    // Where the comparison cannot be computed, the side-by-side view is shown at once.
    retry: false,
  });

const REVERSED = { broke: 'mended', mended: 'broke' } as const;

function flipped(run: string, against: string, flips: readonly Flip[], signal: AbortSignal) {
  const query = { against, where: [`flip=${flips.join(',')}`], limit: MAX_FLIPS };
  return body(api.GET('/api/v1/runs/{run_id}/samples', { params: { path: { run_id: run }, query }, signal }));
}

export interface FlippedPair {
  other: Sample;
  baseline: Sample | undefined;
}

export interface FlippedPairs {
  pairs: FlippedPair[];
  matching: number | null;
}

/** The samples that flipped, with the answers of both runs: what broke for one has mended for the other. */
export const flipsQuery = (baseline: string, other: string, flip: Flip | undefined) => {
  const flips: readonly Flip[] = flip ? [flip] : ['broke', 'mended'];
  return queryOptions({
    queryKey: ['flips', baseline, other, flip],
    queryFn: async ({ signal }): Promise<FlippedPairs> => {
      const [of_other, of_baseline] = await Promise.all([
        flipped(other, baseline, flips, signal),
        flipped(
          baseline,
          other,
          flips.map((kind) => REVERSED[kind]),
          signal,
        ),
      ]);
      return { pairs: paired(of_other.items, of_baseline.items), matching: of_other.matching };
    },
    staleTime: 60_000,
  });
};

/** Join answers by the key of their sample and the number of the repeat. */
export function paired(others: readonly Sample[], baselines: readonly Sample[]): FlippedPair[] {
  const known = new Map(baselines.map((sample) => [nameOf(sample), sample]));
  return others.map((other) => ({ other, baseline: other.key === null ? undefined : known.get(nameOf(other)) }));
}

function nameOf(sample: Sample): string {
  return JSON.stringify([sample.key, sample.repeat]);
}
