/** What the pages of loads read and change. */
import { notifications } from '@mantine/notifications';
import { infiniteQueryOptions, queryOptions, useMutation, useQueryClient } from '@tanstack/react-query';
import { api, body, type Schemas } from '../../api/client';
import type { LoadCreate, LoadRepeats, LoadSweep } from './form';

export type Load = Schemas['Load'];
export type LoadDetail = Schemas['LoadDetail'];

const LISTED_MS = 5_000;
const OPEN_MS = 1_500;
const ENDED = ['SUCCEEDED', 'PARTIAL', 'FAILED', 'CANCELLED'];

export function isEnded(load: Pick<Load, 'state'>): boolean {
  return ENDED.includes(load.state);
}

export const loadsQuery = infiniteQueryOptions({
  queryKey: ['runs', 'loads'],
  queryFn: ({ pageParam, signal }) =>
    body(
      api.GET('/api/v1/loads', { params: { query: { limit: 50, ...(pageParam && { cursor: pageParam }) } }, signal }),
    ),
  initialPageParam: null as string | null,
  getNextPageParam: (page) => page.next,
  refetchInterval: LISTED_MS,
});

export const loadQuery = (id: string) =>
  queryOptions({
    queryKey: ['run', id, 'load'],
    queryFn: ({ signal }) => body(api.GET('/api/v1/loads/{run_id}', { params: { path: { run_id: id } }, signal })),
    refetchInterval: ({ state }) => (state.data && isEnded(state.data) ? false : OPEN_MS),
  });

export function useStart() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (load: LoadCreate) => body(api.POST('/api/v1/loads', { body: load })),
    onSettled: () => queries.invalidateQueries({ queryKey: ['runs'] }),
  });
}

export function useSweep() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (sweep: LoadSweep) => body(api.POST('/api/v1/loads/sweeps', { body: sweep })),
    onSettled: () => Promise.all(['runs', 'experiments'].map((key) => queries.invalidateQueries({ queryKey: [key] }))),
  });
}

export function useRepeats() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (repeats: LoadRepeats) => body(api.POST('/api/v1/loads/repeats', { body: repeats })),
    onSettled: () => Promise.all(['runs', 'experiments'].map((key) => queries.invalidateQueries({ queryKey: [key] }))),
  });
}

export function useCancel(id: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => body(api.POST('/api/v1/loads/{run_id}/cancel', { params: { path: { run_id: id } } })),
    onSuccess: (load) => notifications.show({ message: `Cancellation requested: ${load.name}` }),
    onSettled: () => queries.invalidateQueries({ queryKey: ['run', id] }),
  });
}
