/** Keys of the dashboard: `g` and a letter go to a page, j and k move in a list; none acts while one types. */
import { useEffect, useState } from 'react';
import { NAVIGATION } from './navigation';

const CHORD_MS = 1_200;
const NEVER = Number.NEGATIVE_INFINITY;
/** When `g` was pressed, for which the next letter is a page and nothing else. */
let chordAt = NEVER;

const isInChord = (event: KeyboardEvent): boolean => event.timeStamp - chordAt < CHORD_MS;

function isTyping(event: KeyboardEvent): boolean {
  const target = event.target instanceof HTMLElement ? event.target : null;
  const isField =
    target?.closest('input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable], [role=dialog]') !==
    null;
  return (target !== null && isField) || event.ctrlKey || event.metaKey || event.altKey;
}

/** Call back for single keys while nothing is typed. */
export function useKeys(bindings: Readonly<Record<string, () => void>>): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const act = isTyping(event) || isInChord(event) ? undefined : bindings[event.key];
      if (act === undefined) return;
      event.preventDefault();
      act();
    };
    window.addEventListener('keydown', pressed);
    return () => window.removeEventListener('keydown', pressed);
  }, [bindings]);
}

export function useGoKeys(go: (to: string) => void): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (isTyping(event)) return;
      const entry = NAVIGATION.find(({ key }) => key === event.key);
      if (isInChord(event) && entry) {
        event.preventDefault();
        go(entry.to);
      }
      // Only once every listener of this key has seen whether it ends a chord.
      const next = event.key === 'g' ? event.timeStamp : NEVER;
      queueMicrotask(() => {
        chordAt = next;
      });
    };
    window.addEventListener('keydown', pressed);
    return () => window.removeEventListener('keydown', pressed);
  }, [go]);
}

/** Move through the ids of a list by j and k, and open the current one by Enter or o. */
export function useListKeys(ids: readonly string[], open: (id: string) => void): string | undefined {
  const [current, setCurrent] = useState<string>();
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (isTyping(event) || isInChord(event)) return;
      const at = current === undefined ? -1 : ids.indexOf(current);
      const isOnButton = event.target instanceof HTMLElement && event.target.closest('a, button') !== null;
      if (event.key === 'j' || event.key === 'k') {
        const next = ids[Math.max(0, Math.min(ids.length - 1, at + (event.key === 'j' ? 1 : -1)))];
        if (next === undefined) return;
        setCurrent(next);
        document.querySelector(`[data-row="${CSS.escape(next)}"]`)?.scrollIntoView({ block: 'nearest' });
      } else if (current !== undefined && (event.key === 'o' || (event.key === 'Enter' && !isOnButton))) {
        open(current);
      }
    };
    window.addEventListener('keydown', pressed);
    return () => window.removeEventListener('keydown', pressed);
  }, [ids, current, open]);
  return current;
}
