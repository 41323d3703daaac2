/** Runs as a query: rows, columns, points over all runs, saved views and labels. */
import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import { api, body, type Schemas } from './client';
import { isOpen } from './queries';

export type RunRow = Schemas['RunRow'];
export type Point = Schemas['RunPoint'];
export type Points = Schemas['RunPoints'];
export type Column = Schemas['Column'];
export type SavedView = Schemas['SavedView'];
export type Goal = 'higher' | 'lower';

const OPEN_MS = 4_000;
const IDLE_MS = 20_000;

export interface RowsFilter {
  where?: readonly string[] | undefined;
  q?: string | undefined;
  order?: string | undefined;
  cursor?: string | undefined;
  limit?: number | undefined;
}

export const rowsQuery = ({ where = [], q, order, cursor, limit = 100 }: RowsFilter) =>
  queryOptions({
    queryKey: ['runs', 'rows', where, q, order, cursor, limit],
    queryFn: ({ signal }) =>
      body(
        api.GET('/api/v1/runs/rows', {
          params: {
            query: { limit, where: [...where], ...(q && { q }), ...(order && { order }), ...(cursor && { cursor }) },
          },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
    refetchInterval: ({ state: { data } }) => (data?.items.some(isOpen) ? OPEN_MS : IDLE_MS),
  });

export const columnsQuery = queryOptions({
  queryKey: ['runs', 'columns'],
  queryFn: ({ signal }) => body(api.GET('/api/v1/runs/columns', { signal })),
  staleTime: 30_000,
});

export interface PointsFilter {
  columns: readonly string[];
  goals?: readonly Goal[] | undefined;
  where?: readonly string[] | undefined;
  q?: string | undefined;
}

export const pointsQuery = ({ columns, goals = [], where = [], q }: PointsFilter) =>
  queryOptions({
    queryKey: ['runs', 'points', columns, goals, where, q],
    queryFn: ({ signal }) =>
      body(
        api.GET('/api/v1/points', {
          params: {
            query: {
              columns: columns.join(','),
              where: [...where],
              limit: 5000,
              ...(goals.length > 0 && { goals: goals.join(',') }),
              ...(q && { q }),
            },
          },
          signal,
        }),
      ),
    enabled: columns.length > 0,
    placeholderData: keepPreviousData,
    staleTime: 10_000,
  });

export const labelsQuery = (id: string) =>
  queryOptions({
    queryKey: ['labels', id],
    queryFn: ({ signal }) =>
      body(api.GET('/api/v1/runs/{run_id}/labels', { params: { path: { run_id: id } }, signal })),
  });

export const viewsQuery = (page: string) =>
  queryOptions({
    queryKey: ['views', page],
    queryFn: ({ signal }) => body(api.GET('/api/v1/saved-views/{page}', { params: { path: { page } }, signal })),
    staleTime: 30_000,
  });

/** Filters of an address: a list of texts, also where only one is given. */
export function textsOf(value: unknown): string[] {
  const given = Array.isArray(value) ? value : value === undefined ? [] : [value];
  return given.filter((text): text is string => typeof text === 'string' && text !== '').slice(0, 20);
}

export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : typeof value === 'number' ? String(value) : undefined;
}
