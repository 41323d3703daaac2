/** What pages change: cancel, pause, resume, retune and repeat runs; a notification says what has happened. */
import { notifications } from '@mantine/notifications';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { ApiError, api, body } from './client';

const MAX_REASONS = 5;

export type Steering = 'cancel' | 'pause' | 'resume' | 'rerun';

const DONE: Record<Steering, string> = {
  cancel: 'Cancellation requested',
  pause: 'Paused',
  resume: 'Resumed',
  rerun: 'Submitted again',
};

function send(steering: Steering, id: string) {
  const params = { path: { run_id: id } };
  switch (steering) {
    case 'cancel':
      return body(api.POST('/api/v1/runs/{run_id}/cancel', { params }));
    case 'pause':
      return body(api.POST('/api/v1/runs/{run_id}/pause', { params }));
    case 'resume':
      return body(api.POST('/api/v1/runs/{run_id}/resume', { params }));
    case 'rerun':
      return body(api.POST('/api/v1/runs/{run_id}/rerun', { params, body: {} }));
  }
}

/** Steer runs one after the other; those after a refusal are still asked, and all that are refused are named. */
export function useSteering() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async ({ steering, runs }: { steering: Steering; runs: readonly { id: string; name: string }[] }) => {
      const refused: string[] = [];
      const reasons: string[] = [];
      const steered = [];
      for (const { id, name } of runs) {
        try {
          steered.push(await send(steering, id));
        } catch (error) {
          refused.push(id);
          reasons.push(runs.length === 1 ? textOf(error) : `${name}: ${textOf(error)}`);
        }
      }
      return { steering, steered, refused, reasons };
    },
    onSuccess: ({ steering, steered, refused, reasons }) => {
      if (steered.length > 0) {
        const names = steered.length === 1 ? steered[0]?.name : `${steered.length} runs`;
        notifications.show({ message: `${DONE[steering]}: ${names}` });
      }
      if (refused.length === 0) return;
      const title = steered.length > 0 ? `${refused.length} of ${refused.length + steered.length} refused` : 'Refused';
      const more = reasons.length > MAX_REASONS ? ` … and ${reasons.length - MAX_REASONS} more` : '';
      notifications.show({ color: 'red', title, message: `${reasons.slice(0, MAX_REASONS).join(' ')}${more}` });
    },
    // Nobody waits for the lists: what was asked for is done.
    onSettled: () => {
      void queries.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] === 'run' || queryKey[0] === 'runs' });
    },
  });
}

/** Change how many requests a run keeps in flight. */
export function useRetune(id: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (in_flight: number) =>
      body(api.POST('/api/v1/runs/{run_id}/retune', { params: { path: { run_id: id } }, body: { in_flight } })),
    onSuccess: (run) => notifications.show({ message: `${run.name} keeps ${run.in_flight} requests in flight` }),
    onError: (error) => notifications.show({ color: 'red', title: 'Refused', message: textOf(error) }),
    onSettled: () => queries.invalidateQueries({ queryKey: ['run', id] }),
  });
}

function textOf(error: unknown): string {
  if (error instanceof ApiError) return error.cure ? `${error.message} ${error.cure}` : error.message;
  return error instanceof Error ? error.message : String(error);
}
