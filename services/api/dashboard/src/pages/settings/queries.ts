/** Keys: their list, and what changes them. */
import { queryOptions, useMutation, useQueryClient } from '@tanstack/react-query';
import { api, body, type Schemas } from '../../api/client';

export type ApiKey = Schemas['ApiKey'];
export type KeyCreate = Schemas['KeyCreate'];

export const keysQuery = queryOptions({
  queryKey: ['keys'],
  queryFn: ({ signal }) => body(api.GET('/api/v1/keys', { signal })),
});

export function useNewKey() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (asked: KeyCreate) => body(api.POST('/api/v1/keys', { body: asked })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['keys'] }),
  });
}

export function useRevocation() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (prefix: string) => body(api.POST('/api/v1/keys/{prefix}/revoke', { params: { path: { prefix } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['keys'] }),
  });
}
