import { QueryClient } from '@tanstack/react-query';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Live } from './live';

/** The transport: what the API would do is done by the test. */
class Socket {
  static readonly OPEN = 1;
  static all: Socket[] = [];
  readyState = 0;
  readonly sent: string[] = [];
  onopen: () => void = () => undefined;
  onmessage: (event: { data: string }) => void = () => undefined;
  onclose: () => void = () => undefined;

  constructor() {
    Socket.all.push(this);
  }

  send(text: string): void {
    this.sent.push(text);
  }

  close(): void {
    this.end();
  }

  open(): void {
    this.readyState = Socket.OPEN;
    this.onopen();
  }

  end(): void {
    this.readyState = 3;
    this.onclose();
  }

  tell(message: object): void {
    this.onmessage({ data: JSON.stringify(message) });
  }
}

const newest = () => Socket.all.at(-1) as Socket;
const logs = (...texts: string[]) => ({
  type: 'logs',
  stream: 'r',
  lines: texts.map((text) => ({ source: 'engine', text })),
  left_out: 0,
});

beforeEach(() => {
  Socket.all = [];
  vi.useFakeTimers();
  vi.stubGlobal('WebSocket', Socket);
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function reconnect(): void {
  newest().end();
  vi.advanceTimersByTime(20_000);
  newest().open();
}

it('shows each line once when the last lines come again with a new connection', () => {
  const live = new Live(new QueryClient(), 'ws://api');
  live.want('r', 'logs');
  newest().open();
  newest().tell(logs('a', 'b'));
  reconnect();
  newest().tell(logs('b', 'c'));
  expect(live.detailsOf('r').lines.map(({ text }) => text)).toEqual(['b', 'c']);
});

it('waits longer each time that a connection ends before the API has told anything', () => {
  const live = new Live(new QueryClient(), 'ws://api');
  live.follow('refused');
  for (let tries = 0; tries < 6; tries++) {
    newest().open();
    newest().end();
    vi.advanceTimersByTime(20_000);
  }
  newest().open();
  newest().end();
  const before = Socket.all.length;
  vi.advanceTimersByTime(5_000);
  expect(Socket.all.length).toBe(before);
  vi.advanceTimersByTime(20_000);
  newest().open();
  newest().tell(logs('a'));
  newest().end();
  const known = Socket.all.length;
  vi.advanceTimersByTime(1_000);
  expect(Socket.all.length).toBe(known + 1);
});
