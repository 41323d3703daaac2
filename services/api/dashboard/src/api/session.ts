/** The browser's session: its token, which a sign-in link leaves in the address, and whether the session has ended. */
import { useSyncExternalStore } from 'react';

const TOKEN = 'vlmhyperbench.token';
const listeners = new Set<() => void>();
let hasEnded = false;

function emit(): void {
  for (const listener of listeners) listener();
}

/** Take the token out of the address, so that neither the history nor a copied address has it. */
export function adoptToken(): void {
  const token = new URLSearchParams(window.location.hash.slice(1)).get('token');
  if (token === null) return;
  window.localStorage.setItem(TOKEN, token);
  window.history.replaceState(window.history.state, '', window.location.pathname + window.location.search);
}

/** The token that proves to the API that a request is from this page. */
export function token(): string {
  return window.localStorage.getItem(TOKEN) ?? '';
}

/** Forget the token of a session that was ended, in every tab. */
export function dropToken(): void {
  window.localStorage.removeItem(TOKEN);
}

export function setEnded(ended: boolean): void {
  if (hasEnded === ended) return;
  hasEnded = ended;
  emit();
}

/** Call back when another tab has signed in; one that has signed out ends the session here too. */
export function onSignIn(callback: () => void): () => void {
  const heard = (event: StorageEvent) => {
    if (event.key !== TOKEN) return;
    if (event.newValue === null) setEnded(true);
    else callback();
  };
  window.addEventListener('storage', heard);
  return () => window.removeEventListener('storage', heard);
}

export function useHasEnded(): boolean {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => hasEnded,
  );
}
