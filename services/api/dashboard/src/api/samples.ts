/** Query options of samples: lists by filters, one in full, its answer in a baseline, and counts for filters. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query';
import type { SampleSearch } from '../pages/run/selection';
import { api, body, type Schemas } from './client';
import { equals } from './filters';
import { isOpen } from './queries';

export type SampleRow = Schemas['SampleRow'];
export type SampleDetail = Schemas['SampleDetail'];

const PAGE_ROWS = 200;
const OPEN_MS = 4_000;
const MAX_REFRESHED_PAGES = 2;

function query({ where, q, order, against }: SampleSearch) {
  return { ...(where && { where }), ...(q && { q }), ...(order && { order }), ...(against && { against }) };
}

export const samplesQuery = (run: { id: string; state: string }, search: SampleSearch) =>
  infiniteQueryOptions({
    queryKey: ['samples', run.id, query(search)],
    queryFn: ({ pageParam, signal }) =>
      body(
        api.GET('/api/v1/runs/{run_id}/samples', {
          params: {
            path: { run_id: run.id },
            query: { ...query(search), limit: PAGE_ROWS, ...(pageParam && { cursor: pageParam }) },
          },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
    placeholderData: keepPreviousData,
    refetchInterval: (state) =>
      isOpen(run) && (state.state.data?.pages.length ?? 0) <= MAX_REFRESHED_PAGES ? OPEN_MS : false,
  });

/** Counts for the filters; asking for them also has the API make the table that filters are answered from. */
export const sampleGroupsQuery = (run: { id: string; state: string }) =>
  queryOptions({
    queryKey: ['sample-groups', run.id, run.state],
    queryFn: ({ signal }) =>
      body(api.GET('/api/v1/runs/{run_id}/sample-groups', { params: { path: { run_id: run.id } }, signal })),
    staleTime: 60_000,
    retry: false,
  });

export const sampleQuery = (runId: string, id: string, search: SampleSearch) =>
  queryOptions({
    queryKey: ['sample', runId, id, query(search)],
    queryFn: ({ signal }) =>
      body(
        api.GET('/api/v1/runs/{run_id}/samples/{sample_id}', {
          params: { path: { run_id: runId, sample_id: id }, query: query(search) },
          signal,
        }),
      ),
    staleTime: 30_000,
  });

/** The answer of the baseline to the same sample; null where it has none. */
export const baselineQuery = (against: string | undefined, key: string | null, repeat: number) =>
  queryOptions({
    queryKey: ['sample-of-baseline', against, key, repeat],
    queryFn: async ({ signal }): Promise<SampleRow | null> => {
      const page = await body(
        api.GET('/api/v1/runs/{run_id}/samples', {
          params: {
            path: { run_id: against ?? '' },
            query: { where: [equals('key', key ?? ''), `repeat=${repeat}`], limit: 1 },
          },
          signal,
        }),
      );
      return page.items[0] ?? null;
    },
    enabled: against !== undefined && key !== null,
    staleTime: 60_000,
  });

/** Runs of the same task that have ended with answers, which may serve as baselines. */
export const baselinesQuery = (task: string) =>
  queryOptions({
    queryKey: ['baselines', task],
    queryFn: ({ signal }) =>
      body(
        api.GET('/api/v1/runs/rows', {
          params: { query: { where: ['state=SUCCEEDED,PARTIAL', equals('task', task)], limit: 100 } },
          signal,
        }),
      ),
    staleTime: 30_000,
  });
