/** Experiments: their list, one of them with its runs, and what can be done to it. */
import { notifications } from '@mantine/notifications';
import { infiniteQueryOptions, queryOptions, useMutation, useQueryClient } from '@tanstack/react-query';
import { api, body, type Schemas } from '../../api/client';
import type { ExperimentsSearch } from './route';

export type Experiment = Schemas['Experiment'];
export type ExperimentDetail = Schemas['ExperimentDetail'];

const OPEN_MS = 4_000;
const IDLE_MS = 20_000;

export const experimentsQuery = ({ state }: ExperimentsSearch) =>
  infiniteQueryOptions({
    queryKey: ['experiments', state],
    queryFn: ({ pageParam, signal }) =>
      body(
        api.GET('/api/v1/experiments', {
          params: { query: { limit: 100, ...(state && { state }), ...(pageParam && { cursor: pageParam }) } },
          signal,
        }),
      ),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
    refetchInterval: ({ state: { data } }) =>
      data?.pages.some((page) => page.items.some((experiment) => experiment.state === 'OPEN')) ? OPEN_MS : IDLE_MS,
  });

export const experimentQuery = (id: string) =>
  queryOptions({
    queryKey: ['experiment', id],
    queryFn: ({ signal }) =>
      body(api.GET('/api/v1/experiments/{experiment_id}', { params: { path: { experiment_id: id } }, signal })),
    refetchInterval: ({ state: { data } }) => (data && data.state !== 'OPEN' ? false : OPEN_MS),
  });

export type ExperimentSteering = 'cancel' | 'pause' | 'resume';

const DONE = { cancel: 'Cancellation requested', pause: 'Paused', resume: 'Resumed' } as const;

function send(id: string, steering: ExperimentSteering): Promise<ExperimentDetail> {
  const params = { path: { experiment_id: id } };
  switch (steering) {
    case 'cancel':
      return body(api.POST('/api/v1/experiments/{experiment_id}/cancel', { params }));
    case 'pause':
      return body(api.POST('/api/v1/experiments/{experiment_id}/pause', { params }));
    case 'resume':
      return body(api.POST('/api/v1/experiments/{experiment_id}/resume', { params }));
  }
}

export function useExperimentSteering(id: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (steering: ExperimentSteering) => send(id, steering),
    onSuccess: ({ name }, steering) => notifications.show({ message: `${DONE[steering]}: ${name}` }),
    onError: (error) => notifications.show({ color: 'red', title: 'Refused', message: error.message }),
    onSettled: () =>
      queries.invalidateQueries({
        predicate: ({ queryKey }) => ['experiment', 'experiments', 'run', 'runs'].includes(String(queryKey[0])),
      }),
  });
}
