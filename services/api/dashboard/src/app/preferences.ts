/** What a person prefers in this browser: density, time zone, default task; the colours are Mantine's own setting. */
import { useSyncExternalStore } from 'react';

export interface Preferences {
  density: 'comfortable' | 'compact';
  zone: 'UTC' | 'local';
  /** The task that the leaderboard opens with; empty: the one with the most runs. */
  task: string;
}

const KEY = 'vlmhyperbench.preferences';
const DEFAULTS: Preferences = { density: 'comfortable', zone: 'UTC', task: '' };
const listeners = new Set<() => void>();
let current = readPreferences(window.localStorage.getItem(KEY));

/** Read what is stored; a value that is not known, or no JSON at all, is the default. */
export function readPreferences(text: string | null): Preferences {
  let stored: Record<string, unknown> = {};
  try {
    const value: unknown = JSON.parse(text ?? '{}');
    if (typeof value === 'object' && value !== null) stored = value as Record<string, unknown>;
  } catch {
    return DEFAULTS; // written by another program, or cut off
  }
  return {
    density: stored.density === 'compact' ? 'compact' : 'comfortable',
    zone: stored.zone === 'local' ? 'local' : 'UTC',
    task: typeof stored.task === 'string' ? stored.task : '',
  };
}

function show(): void {
  document.documentElement.dataset.density = current.density;
}

export function setPreferences(change: Partial<Preferences>): void {
  current = { ...current, ...change };
  window.localStorage.setItem(KEY, JSON.stringify(current));
  show();
  for (const listener of listeners) listener();
}

export function usePreferences(): Preferences {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => current,
  );
}

show();
