/** The state of a worker and of a device in one word, with its tone; what keeps jobs away comes first. */
import type { Schemas } from '../../api/client';
import type { Worker } from '../../api/queries';

export interface Told {
  word: string;
  tone: 'good' | 'bad' | 'warn' | 'busy' | '';
}

export function workerState(worker: Pick<Worker, 'state' | 'is_stale' | 'drained' | 'devices'>): Told {
  if (worker.state === 'GONE') return { word: 'gone', tone: '' };
  if (worker.is_stale) return { word: 'no heartbeat', tone: 'bad' };
  if (worker.drained) return { word: 'drained', tone: 'warn' };
  if ((worker.devices ?? []).some((device) => device.state === 'BROKEN')) return { word: 'quarantine', tone: 'bad' };
  if ((worker.devices ?? []).some((device) => (device.jobs ?? 0) > 0)) return { word: 'busy', tone: 'busy' };
  return { word: worker.state.toLowerCase(), tone: 'good' };
}

export function deviceState(worker: Pick<Worker, 'is_stale' | 'drained'>, device: Schemas['Device']): Told {
  if (device.state === 'BROKEN') return { word: 'quarantine', tone: 'bad' };
  if (worker.is_stale) return { word: 'stale', tone: 'warn' };
  if (device.drained || worker.drained) return { word: 'drained', tone: 'warn' };
  return (device.jobs ?? 0) > 0 ? { word: 'busy', tone: 'busy' } : { word: 'idle', tone: '' };
}
