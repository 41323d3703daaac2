import { screen, within } from '@testing-library/react';
import { expect, it, vi } from 'vitest';

vi.hoisted(() => {
  const run = (no: number) => ({ id: `${no}`, name: `run ${no}`, state: 'QUEUED', target: 'm', task: 't', done: 0 });
  const queued = Array.from({ length: 20 }, (_, no) => ({ ...run(no), created_at: '2026-01-01T00:00:00Z' }));
  globalThis.WebSocket = class {
    static OPEN = 1;
    close() {}
  } as never;
  globalThis.fetch = async (input) => {
    const url = new URL((input as Request).url);
    if (url.pathname.endsWith('/workers')) return new Promise(() => undefined);
    if (url.pathname.endsWith('/rows')) return Response.json({ message: 'The database is away.' }, { status: 422 });
    const isQueued = [null, 'QUEUED'].includes(url.searchParams.get('state'));
    return Response.json(isQueued ? { items: queued, next: 'more' } : { items: [], next: null });
  };
});

import { openFeed } from '../../api/live';
import { newQueries } from '../../app/queries';
import { draw, PATIENCE } from '../../test-drawing';
import { HomePage } from './HomePage';
import { home } from './route';

it('says what it does not know yet, what it could not read, and that there is more than it counts', async () => {
  const queries = newQueries();
  openFeed(queries);
  draw(home, HomePage, '/', queries);
  const card = async (name: string) => within(await screen.findByLabelText(name, { selector: 'section' }, PATIENCE));
  const waiting = await card('Waiting');
  expect(await waiting.findByText('20+', {}, PATIENCE)).toBeTruthy();
  expect(waiting.getByText('Show all').getAttribute('href')).toContain('/runs');
  expect(await (await card('Running now')).findByText('0', {}, PATIENCE)).toBeTruthy();
  expect(await (await card('Last failures')).findByText('The database is away.', {}, PATIENCE)).toBeTruthy();
  const devices = await card('Devices');
  expect(devices.getByText('Loading devices …')).toBeTruthy();
  expect(devices.queryByText(/No worker/)).toBeNull();
}, 180_000);
