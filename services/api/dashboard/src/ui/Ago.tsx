/** An instant as time past, with the exact instant as its title; it grows old while the page is open. */
import { useSyncExternalStore } from 'react';
import { usePreferences } from '../app/preferences';
import { ago, instant } from './format';

const TICK_MS = 5_000;
const listeners = new Set<() => void>();
let tick = 0;
let timer: ReturnType<typeof setInterval> | undefined;

/** One timer for all instants of a page, which stops with the last of them. */
function listen(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    tick += 1;
    for (const each of listeners) each();
  }, TICK_MS);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

export function Ago({ at }: { at: string | null | undefined }) {
  const { zone } = usePreferences();
  useSyncExternalStore(listen, () => tick);
  return (
    <time dateTime={at ?? undefined} title={instant(at, zone)}>
      {ago(at)}
    </time>
  );
}

/** An exact instant in the time zone that the person prefers. */
export function Instant({ at }: { at: string | null | undefined }) {
  const { zone } = usePreferences();
  return <time dateTime={at ?? undefined}>{instant(at, zone)}</time>;
}
