/** The live feed: one WebSocket for all pages, which follows runs by cursor and comes back by itself. */
import type { QueryClient } from '@tanstack/react-query';
import { useEffect, useSyncExternalStore } from 'react';
import { api } from './client';
import {
  type DetailMessage,
  type Details,
  type Kind,
  type Line,
  NONE,
  type ResourcePoint,
  withMessage,
} from './details';
import type { Progress } from './queries';

export type Connection = 'idle' | 'connecting' | 'open' | 'reconnecting';

interface StreamMessage {
  type: 'snapshot' | 'event' | 'progress' | 'refused';
  stream: string;
  seq?: number;
  progress?: Progress | Progress[];
}

type Message = StreamMessage | DetailMessage;

const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 10_000;
const REFRESH_MS = 400;
/** A page reads what has happened by REST, so a stream that it does not know yet begins at its newest event. */
const FROM_NOW = Number.MAX_SAFE_INTEGER;

/** Follows streams; a change of a run makes its cached queries stale, so that pages read what they show. */
export class Live {
  connection: Connection = 'idle';
  private socket: WebSocket | null = null;
  private retryMs = FIRST_RETRY_MS;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private readonly followers = new Map<string, number>();
  private readonly cursors = new Map<string, number>();
  private readonly progress = new Map<string, Progress>();
  /** Run → kinds of details, each as often as a component wants it. */
  private readonly wanted = new Map<string, Kind[]>();
  private readonly details = new Map<string, Details>();
  private readonly listeners = new Set<() => void>();
  private readonly changed = new Set<string>();
  private refreshing: ReturnType<typeof setTimeout> | undefined;
  private readonly queries: QueryClient;
  private readonly address: string;
  private readonly onRefused: () => void;

  /** `onRefused` is called when a connection could not be opened: the session may have ended. */
  constructor(queries: QueryClient, address: string, onRefused: () => void = () => undefined) {
    this.queries = queries;
    this.address = address;
    this.onRefused = onRefused;
  }

  /** Follow a stream until the returned function is called. */
  follow(stream: string): () => void {
    const count = (this.followers.get(stream) ?? 0) + 1;
    this.followers.set(stream, count);
    if (this.socket === null) this.connect();
    else if (count === 1) this.ask([stream]);
    return () => {
      const left = (this.followers.get(stream) ?? 1) - 1;
      if (left > 0) this.followers.set(stream, left);
      else this.followers.delete(stream);
      if (this.followers.size === 0) this.close();
    };
  }

  /** Follow details of a run too, until the returned function is called. */
  want(stream: string, kind: Kind): () => void {
    const kinds = this.wanted.get(stream) ?? [];
    this.wanted.set(stream, [...kinds, kind]);
    const stop = this.follow(stream);
    if (!kinds.includes(kind)) this.ask([stream]);
    return () => {
      const left = [...(this.wanted.get(stream) ?? [])];
      left.splice(left.indexOf(kind), 1);
      this.wanted.set(stream, left);
      if (left.length === 0) {
        this.wanted.delete(stream);
        this.details.delete(stream);
      }
      stop();
      if (!left.includes(kind) && this.followers.has(stream)) this.ask([stream]);
    };
  }

  detailsOf(stream: string): Details {
    return this.details.get(stream) ?? NONE;
  }

  /** Try again at once, such as when the page is looked at again after the machine has slept. */
  retryNow(): void {
    if (this.connection === 'reconnecting' && this.socket === null) this.connect();
  }

  progressOf(stream: string): Progress | undefined {
    return this.progress.get(stream);
  }

  listen = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  private connect(): void {
    clearTimeout(this.retry);
    this.set(this.connection === 'reconnecting' ? 'reconnecting' : 'connecting');
    const socket = new WebSocket(this.address);
    this.socket = socket;
    let wasOpen = false;
    socket.onopen = () => {
      wasOpen = true;
      this.set('open');
      // The API sends the last lines to each connection that asks for logs.
      for (const [stream, details] of this.details)
        this.details.set(stream, { ...details, lines: [], linesLeftOut: 0 });
      this.ask([...this.followers.keys()]);
    };
    socket.onmessage = (event) => {
      // Not before: what the API refuses to follow, it refuses after it has opened the connection.
      this.retryMs = FIRST_RETRY_MS;
      this.take(JSON.parse(String(event.data)) as Message);
    };
    socket.onclose = () => {
      if (this.socket !== socket) return;
      this.socket = null;
      if (this.followers.size === 0) {
        this.set('idle');
        return;
      }
      this.set('reconnecting');
      if (!wasOpen) this.onRefused();
      this.retry = setTimeout(() => this.connect(), this.retryMs * (0.75 + Math.random() / 2));
      this.retryMs = Math.min(this.retryMs * 2, MAX_RETRY_MS);
    };
  }

  private close(): void {
    clearTimeout(this.retry);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    this.set('idle');
  }

  private ask(streams: string[]): void {
    if (streams.length === 0 || this.socket?.readyState !== WebSocket.OPEN) return;
    const subscribe = streams.map((stream) => ({
      stream,
      since: this.cursors.get(stream) ?? FROM_NOW,
      with: [...new Set(this.wanted.get(stream))],
    }));
    this.socket.send(JSON.stringify({ subscribe }));
  }

  private take(message: Message): void {
    const { stream } = message;
    if (message.type === 'samples' || message.type === 'resources' || message.type === 'logs') {
      this.details.set(stream, withMessage(this.detailsOf(stream), message));
      this.emit();
      return;
    }
    if (message.type === 'progress' || message.type === 'snapshot') {
      const news = Array.isArray(message.progress) ? message.progress : message.progress ? [message.progress] : [];
      for (const progress of news) this.progress.set(stream, progress);
      if (news.length > 0) this.emit();
    }
    if (message.seq === undefined) return;
    const known = this.cursors.get(stream);
    this.cursors.set(stream, Math.max(known ?? 0, message.seq));
    const shown = known ?? this.queries.getQueryData<{ event_seq: number }>(['run', stream])?.event_seq ?? 0;
    if (message.type === 'event' || message.seq > shown) this.stale(stream);
  }

  private stale(stream: string): void {
    this.changed.add(stream);
    this.refreshing ??= setTimeout(() => {
      this.refreshing = undefined;
      for (const id of this.changed) void this.queries.invalidateQueries({ queryKey: ['run', id] });
      void this.queries.invalidateQueries({ queryKey: ['runs'] });
      this.changed.clear();
    }, REFRESH_MS);
  }

  private set(connection: Connection): void {
    if (connection === this.connection) return;
    this.connection = connection;
    this.emit();
  }

  private emit(): void {
    for (const listener of this.listeners) listener();
  }
}

let feed: Live | null = null;

export function openFeed(queries: QueryClient): void {
  const scheme = window.location.protocol === 'https:' ? 'wss' : 'ws';
  // A browser does not tell why a WebSocket was refused; an answer of the API does, and 401 shows how to sign in.
  const asked = () => void api.GET('/api/v1/session').catch(() => undefined);
  feed = new Live(queries, `${scheme}://${window.location.host}/api/v1/live`, asked);
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'visible') feed?.retryNow();
  });
}

function theFeed(): Live {
  if (feed === null) throw new Error('The feed is opened in main.tsx, before the first page.');
  return feed;
}

/** Follow these runs while the component is shown. */
export function useFollow(ids: readonly string[]): void {
  const joined = ids.join(' ');
  useEffect(() => {
    const stops = joined
      .split(' ')
      .filter(Boolean)
      .map((id) => theFeed().follow(id));
    return () => {
      for (const stop of stops) stop();
    };
  }, [joined]);
}

/** The newest progress of a run that the page follows. */
export function useProgress(id: string): Progress | undefined {
  return useSyncExternalStore(theFeed().listen, () => theFeed().progressOf(id));
}

export function useConnection(): Connection {
  return useSyncExternalStore(theFeed().listen, () => theFeed().connection);
}

function useDetails(id: string, kind: Kind, isWanted: boolean): Details {
  useEffect(() => (isWanted ? theFeed().want(id, kind) : undefined), [id, kind, isWanted]);
  return useSyncExternalStore(theFeed().listen, () => theFeed().detailsOf(id));
}

/** The newest requests of a run that ended while the component is shown; `isWanted` is false for a run that has ended. */
export function useSamplesLive(id: string, isWanted = true): Pick<Details, 'samples' | 'samplesLeftOut'> {
  return useDetails(id, 'samples', isWanted);
}

/** Samples of the devices of a run, one a second, oldest first, of the last five minutes. */
export function useResourcesLive(id: string, isWanted = true): readonly ResourcePoint[] {
  return useDetails(id, 'resources', isWanted).resources;
}

/** Lines of the logs of a run: the last that were written before, then those that come. */
export function useLogLines(id: string, isWanted = true): { lines: readonly Line[]; leftOut: number } {
  const { lines, linesLeftOut } = useDetails(id, 'logs', isWanted);
  return { lines, leftOut: linesLeftOut };
}
