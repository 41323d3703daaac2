/** Registry entries: their list with what is wrong in them, and one entry whole. */
import { queryOptions } from '@tanstack/react-query';
import { api, body, type Schemas } from '../../api/client';

export type Summary = Schemas['RegistrySummary'];

/** Kind of an entry → the column of runs that names it. */
export const COLUMN_OF: Partial<Record<string, string>> = {
  models: 'model',
  pipelines: 'model',
  backends: 'backend',
  tasks: 'task',
  datasets: 'dataset',
  scenarios: 'scenario',
};

export const registryQuery = queryOptions({
  queryKey: ['registry'],
  queryFn: ({ signal }) => body(api.GET('/api/v1/registry', { signal })),
});

export const entryQuery = (kind: string, name: string) =>
  queryOptions({
    queryKey: ['registry', kind, name],
    queryFn: ({ signal }) =>
      body(api.GET('/api/v1/registry/{kind}/{name}', { params: { path: { kind, name } }, signal })),
  });

/** The entries of a kind whose name or description has every word. */
export function matching(entries: readonly Summary[], kind: string | undefined, q: string): Summary[] {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  return entries.filter((entry) => {
    const text = `${entry.name} ${entry.description ?? ''}`.toLowerCase();
    return (kind === undefined || entry.kind === kind) && words.every((word) => text.includes(word));
  });
}
