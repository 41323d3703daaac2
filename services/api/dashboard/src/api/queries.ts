/** What pages read: one set of query options for each resource, with the key under which it is cached. */
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import { api, body, type Schemas } from './client';

export type Run = Schemas['Run'];
export type RunDetail = Schemas['RunDetail'];
export type RunState = Run['state'];
export type Worker = Schemas['Worker'];
export type Progress = Schemas['Progress'];

const OPEN_MS = 4_000;
const IDLE_MS = 20_000;

export const ENDED: ReadonlySet<string> = new Set(['SUCCEEDED', 'PARTIAL', 'FAILED', 'CANCELLED']);

export function isOpen(run: { state: string }): boolean {
  return !ENDED.has(run.state);
}

export interface RunFilter {
  state?: RunState | undefined;
}

export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: ({ signal }) => body(api.GET('/api/v1/session', { signal })),
  staleTime: 60_000,
});

export const runsQuery = (filter: RunFilter, limit = 100) =>
  infiniteQueryOptions({
    queryKey: ['runs', filter, limit],
    queryFn: ({ pageParam, signal }) =>
      body(
        api.GET('/api/v1/runs', {
          params: {
            query: { limit, ...(filter.state && { state: filter.state }), ...(pageParam && { cursor: pageParam }) },
          },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
    refetchInterval: (query) => {
      const pages = query.state.data?.pages ?? [];
      return pages.some((page) => page.items.some(isOpen)) ? OPEN_MS : IDLE_MS;
    },
  });

export const runQuery = (id: string) =>
  queryOptions({
    queryKey: ['run', id],
    queryFn: ({ signal }) => body(api.GET('/api/v1/runs/{run_id}', { params: { path: { run_id: id } }, signal })),
    refetchInterval: (query) => (query.state.data && !isOpen(query.state.data) ? false : OPEN_MS),
  });

export const manifestQuery = (id: string) =>
  queryOptions({
    queryKey: ['manifest', id],
    queryFn: ({ signal }) =>
      body(api.GET('/api/v1/runs/{run_id}/manifest', { params: { path: { run_id: id } }, signal })),
    retry: false,
  });

export const workersQuery = queryOptions({
  queryKey: ['workers'],
  queryFn: ({ signal }) => body(api.GET('/api/v1/workers', { signal })),
  refetchInterval: OPEN_MS,
});

export const artifactsQuery = (runId: string) =>
  queryOptions({
    queryKey: ['artifacts', runId],
    queryFn: ({ signal }) => body(api.GET('/api/v1/artifacts', { params: { query: { run_id: runId } }, signal })),
  });
