/** What the page of workers reads and changes: workers, drains, quarantines, and the queue by priority. */
import { notifications } from '@mantine/notifications';
import { queryOptions, useMutation, useQueryClient } from '@tanstack/react-query';
import { api, body, type Schemas } from '../../api/client';
import { useAllowed } from '../../ui/allowed';

export type Drain = Schemas['Drain'];
export type Quarantine = Schemas['Quarantine'];
export type Scope = Drain['scope'];

const REFRESH_MS = 4_000;
const MAX_QUEUED = 100;

export const fleetQuery = (past: boolean) =>
  queryOptions({
    queryKey: ['workers', past],
    queryFn: ({ signal }) =>
      body(api.GET('/api/v1/workers', { params: { query: { include_gone: past, limit: 200 } }, signal })),
    refetchInterval: REFRESH_MS,
  });

export const drainsQuery = (past: boolean) =>
  queryOptions({
    queryKey: ['drains', past],
    queryFn: ({ signal }) =>
      body(api.GET('/api/v1/workers/drains', { params: { query: { include_resumed: past } }, signal })),
    refetchInterval: REFRESH_MS,
  });

export const quarantinesQuery = (past: boolean) =>
  queryOptions({
    queryKey: ['quarantines', past],
    queryFn: ({ signal }) =>
      body(api.GET('/api/v1/workers/quarantines', { params: { query: { include_released: past } }, signal })),
    refetchInterval: REFRESH_MS,
  });

/** Runs that wait or run, in the order in which the scheduler looks at them: by priority, then who came first. */
export const queueQuery = queryOptions({
  queryKey: ['runs', 'queue'],
  queryFn: ({ signal }) =>
    body(
      api.GET('/api/v1/runs/rows', {
        params: { query: { where: ['state=QUEUED,INDEXED,RUNNING'], order: 'queue_place', limit: MAX_QUEUED } },
        signal,
      }),
    ),
  refetchInterval: REFRESH_MS,
});

export type Change =
  | { kind: 'drain'; scope: Scope; name: string; reason: string }
  | { kind: 'resume'; scope: Scope; name: string }
  | { kind: 'release'; uuid: string };

function send(change: Change): Promise<unknown> {
  switch (change.kind) {
    case 'drain': {
      const { scope, name, reason } = change;
      return body(api.POST('/api/v1/workers/drains', { body: { scope, name, reason } }));
    }
    case 'resume':
      return body(api.POST('/api/v1/workers/drains/resume', { body: { scope: change.scope, name: change.name } }));
    case 'release': {
      const params = { path: { uuid: change.uuid } };
      return body(api.POST('/api/v1/workers/devices/{uuid}/release', { params }));
    }
  }
}

const DONE = { drain: 'Drained', resume: 'Resumed', release: 'Released from quarantine' } as const;

export function useFleetChange() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: send,
    onSuccess: (_, change) =>
      notifications.show({ message: `${DONE[change.kind]}: ${change.kind === 'release' ? change.uuid : change.name}` }),
    onSettled: () =>
      queries.invalidateQueries({
        predicate: ({ queryKey }) => ['workers', 'drains', 'quarantines'].includes(String(queryKey[0])),
      }),
  });
}

export function useMayChange(): boolean {
  return useAllowed('worker:write');
}
