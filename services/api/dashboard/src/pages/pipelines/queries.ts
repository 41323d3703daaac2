/** What the pages of pipelines read and change: pipelines, drafts, sessions, models. */
import { notifications } from '@mantine/notifications';
import { keepPreviousData, queryOptions, useMutation, useQueryClient } from '@tanstack/react-query';
import { ApiError, api, body, type Schemas } from '../../api/client';
import { isOpen, type RunState } from '../../api/queries';
import type { Entry } from '../new-run/entry';
import { questionFile } from './question';

export type Pipeline = Schemas['PipelineStatus'];
export type Check = Schemas['PipelineCheck'];
export type PipelinePlan = Schemas['PipelinePlan'];
export type Session = Schemas['Session'];
export type SessionDetail = Schemas['SessionDetail'];
export type Step = Schemas['SessionStep'];
export type ModelStatus = Schemas['ModelStatus'];
export type ModelEstimate = Schemas['ModelEstimate'];

const OPEN_MS = 1_500;
const IDLE_MS = 20_000;

export const pipelinesQuery = queryOptions({
  queryKey: ['pipelines'],
  queryFn: ({ signal }) => body(api.GET('/api/v1/pipelines', { signal })),
  refetchInterval: IDLE_MS,
});

/** Its key begins as the run's, so that the live feed refreshes it. */
export const sessionQuery = (id: string) =>
  queryOptions({
    queryKey: ['run', id, 'session'],
    queryFn: ({ signal }) =>
      body(api.GET('/api/v1/pipelines/sessions/{run_id}', { params: { path: { run_id: id } }, signal })),
    refetchInterval: (query) => (query.state.data && !isOpen(query.state.data) ? false : OPEN_MS),
  });

export interface SessionFilter {
  pipeline?: string | undefined;
  state?: RunState | undefined;
  cursor?: string | undefined;
}

export const sessionsQuery = ({ pipeline, state, cursor }: SessionFilter) =>
  queryOptions({
    queryKey: ['sessions', pipeline, state, cursor],
    queryFn: ({ signal }) =>
      body(
        api.GET('/api/v1/pipelines/sessions', {
          params: { query: { ...(pipeline && { pipeline }), ...(state && { state }), ...(cursor && { cursor }) } },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
    refetchInterval: (query) => ((query.state.data?.items ?? []).some(isOpen) ? OPEN_MS : IDLE_MS),
  });

export const checkQuery = (name: string, entry: Entry) =>
  queryOptions({
    queryKey: ['pipeline-check', name, entry],
    queryFn: ({ signal }) => body(api.POST('/api/v1/pipelines/check', { body: { name, entry }, signal })),
    placeholderData: keepPreviousData,
  });

export const planQuery = (name: string, entry: Entry) =>
  queryOptions({
    queryKey: ['pipeline-plan', name, entry],
    queryFn: ({ signal }) => body(api.POST('/api/v1/pipelines/plan', { body: { name, entry }, signal })),
    placeholderData: keepPreviousData,
    retry: (failures, error) => failures < 2 && !(error instanceof ApiError && error.status === 422),
  });

export const savedQuery = (name: string) =>
  queryOptions({
    queryKey: ['registry', 'pipelines', name],
    queryFn: ({ signal }) =>
      body(api.GET('/api/v1/registry/{kind}/{name}', { params: { path: { kind: 'pipelines', name } }, signal })),
    retry: false,
  });

export const modelNamesQuery = queryOptions({
  queryKey: ['registry', 'models'],
  queryFn: ({ signal }) => body(api.GET('/api/v1/registry', { params: { query: { kind: 'models' } }, signal })),
  staleTime: IDLE_MS,
});

const CHANGING: ReadonlySet<string> = new Set(['waiting', 'loading']);

export const modelsQuery = queryOptions({
  queryKey: ['models'],
  queryFn: ({ signal }) => body(api.GET('/api/v1/models', { signal })),
  refetchInterval: (query) =>
    (query.state.data?.items ?? []).some(({ status }) => CHANGING.has(status)) ? OPEN_MS : IDLE_MS / 2,
});

export const estimateQuery = (name: string) =>
  queryOptions({
    queryKey: ['models', name, 'estimate'],
    queryFn: ({ signal }) => body(api.GET('/api/v1/models/{name}/estimate', { params: { path: { name } }, signal })),
    retry: (failures, error) => failures < 2 && !(error instanceof ApiError && error.status < 500),
  });

export interface Question {
  pipeline: string;
  question: string;
  images: readonly string[];
}

/** Upload the question, then ask it; the answer is the session's run. */
export function useAsk() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async ({ pipeline, question, images }: Question) => {
      const uploading = api.POST('/api/v1/answers', {
        body: questionFile(question, images),
        headers: { 'Content-Type': 'application/x-ndjson' },
        bodySerializer: (text) => text,
      });
      const { sha256 } = await body(uploading);
      return body(api.POST('/api/v1/pipelines/sessions', { body: { pipeline, question: sha256 } }));
    },
    onSettled: () => queries.invalidateQueries({ queryKey: ['sessions'] }),
  });
}

export function useRerun(id: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (stage: string) =>
      body(
        api.POST('/api/v1/pipelines/sessions/{run_id}/rerun', { params: { path: { run_id: id } }, body: { stage } }),
      ),
    onError: refused,
    onSettled: () => queries.invalidateQueries({ queryKey: ['sessions'] }),
  });
}

/** Save YAML as an entry of the registry; `isNew` is false for a new version of one that is in the database. */
export function useSave() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ name, yaml, isNew }: { name: string; yaml: string; isNew: boolean }) => {
      const sent = {
        body: yaml as never,
        headers: { 'Content-Type': 'application/yaml' },
        bodySerializer: (text: unknown) => String(text),
      };
      return body(
        isNew
          ? api.POST('/api/v1/registry/{kind}', { params: { path: { kind: 'pipelines' } }, ...sent })
          : api.PUT('/api/v1/registry/{kind}/{name}', { params: { path: { kind: 'pipelines', name } }, ...sent }),
      );
    },
    onSuccess: (entry) =>
      notifications.show({ message: `Saved ${entry.name}, version ${entry.revision} in the database` }),
    onSettled: () => {
      void queries.invalidateQueries({ queryKey: ['pipelines'] });
      void queries.invalidateQueries({ queryKey: ['registry'] });
    },
  });
}

export type Holding = 'load' | 'pin' | 'unload';

/** Ask a worker to load, pin or unload a model. */
export function useHold() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ name, holding }: { name: string; holding: Holding }) => {
      const params = { path: { name } };
      return body(
        holding === 'unload'
          ? api.POST('/api/v1/models/{name}/unload', { params })
          : api.POST('/api/v1/models/{name}/load', { params, body: { pin: holding === 'pin' } }),
      );
    },
    onError: refused,
    onSettled: () => queries.invalidateQueries({ queryKey: ['models'] }),
  });
}

function refused(error: unknown): void {
  const text = error instanceof ApiError ? `${error.message} ${error.cure}` : String(error);
  notifications.show({ color: 'red', title: 'Refused', message: text });
}
