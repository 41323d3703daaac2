/** What the form asks: the schema of a run, its plan, the YAML that a person has written, and the submission. */
import { keepPreviousData, queryOptions, useMutation, useQueryClient } from '@tanstack/react-query';
import { ApiError, api, body, type ErrorItem, type Schemas } from '../../api/client';
import { type Entry, isBegun } from './entry';
import type { Schema } from './schema';

export type Plan = Schemas['RunPlan'];

export interface Draft {
  entry: Entry;
  name: string;
}

export const schemaQuery = queryOptions({
  queryKey: ['schema', 'runs'],
  queryFn: async ({ signal }) => {
    const asked = api.GET('/api/v1/registry/schemas/{kind}', { params: { path: { kind: 'runs' } }, signal });
    return (await body(asked)) as Schema;
  },
  staleTime: Number.POSITIVE_INFINITY,
});

export const entryQuery = (id: string) =>
  queryOptions({
    queryKey: ['run-entry', id],
    queryFn: async ({ signal }) =>
      (await body(api.GET('/api/v1/runs/{run_id}/entry', { params: { path: { run_id: id } }, signal }))).entry as Entry,
    retry: false,
    staleTime: Number.POSITIVE_INFINITY,
  });

export const planQuery = (draft: Draft) =>
  queryOptions({
    queryKey: ['plan', draft],
    queryFn: ({ signal }) => body(api.POST('/api/v1/runs/plan', { body: bodyOf(draft), signal })),
    enabled: isBegun(draft.entry),
    placeholderData: keepPreviousData,
    retry: (failures, error) => failures < 2 && !(error instanceof ApiError && error.status === 422),
  });

export const parsedQuery = (yaml: string) =>
  queryOptions({
    queryKey: ['parsed', yaml],
    queryFn: async ({ signal }) => {
      const params = { path: { kind: 'runs' } };
      const asked = api.POST('/api/v1/registry/{kind}/parse', { params, body: { yaml }, signal });
      return (await body(asked)).entry as Entry;
    },
    retry: false,
    gcTime: 0,
  });

/** Submit a draft; the same key twice is one run. */
export function useSubmit() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ draft, key }: { draft: Draft; key: string }) =>
      body(api.POST('/api/v1/runs', { body: bodyOf(draft), params: { header: { 'Idempotency-Key': key } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['runs'] }),
  });
}

function bodyOf({ entry, name }: Draft): Schemas['RunCreate'] {
  const named = name.trim() === '' ? defaultName(entry) : name;
  // What the form holds is sent as it is: the API says what is wrong with it.
  return { run: entry, ...(named && { name: named }) } as unknown as Schemas['RunCreate'];
}

/** The name that the command line would choose: the model and the task. */
export function defaultName(entry: Entry): string {
  const target = entry.target;
  const named = typeof target === 'object' && target !== null && !Array.isArray(target) ? target : {};
  const parts = [named.model ?? named.model_name, entry.task].filter((part) => typeof part === 'string');
  return parts.length === 2 ? parts.join(', ').slice(0, 200) : '';
}

/** Errors by the path of their field, without the parts of the body around the entry. */
export function errorsByField(error: unknown): Map<string, string> {
  const found = new Map<string, string>();
  if (!(error instanceof ApiError)) return found;
  for (const item of error.items) {
    const field = (item.field ?? '').replace(/^body\.(run\.)?/, '');
    const text = textOf(item);
    found.set(field, found.has(field) ? `${found.get(field)} ${text}` : text);
  }
  return found;
}

export function textOf(item: ErrorItem): string {
  const message = item.message.charAt(0).toUpperCase() + item.message.slice(1);
  return [message, item.cure].filter(Boolean).join(' ');
}

/** A key that no other submission has. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
