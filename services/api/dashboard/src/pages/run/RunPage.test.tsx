import { screen } from '@testing-library/react';
import { expect, it, vi } from 'vitest';

const session = vi.hoisted(() => {
  const run = {
    id: 'r',
    name: 'watched',
    state: 'RUNNING',
    target: 'm',
    task: 't',
    scenario: 'offline',
    spec: { target: { kind: 'model' } },
    done: 1,
    failed: 0,
    total: 2,
    in_flight: 4,
    can_retune: true,
    is_paused: false,
    created_by: 'ada',
    created_at: '2026-01-01T00:00:00Z',
    event_seq: 1,
  };
  const known = { can_write: true, scopes: ['run:read', 'run:write'] };
  globalThis.WebSocket = class {
    static OPEN = 1;
    close() {}
  } as never;
  globalThis.fetch = async (input) => {
    const { pathname } = new URL((input as Request).url);
    if (pathname.endsWith('/session')) return Response.json(known);
    if (pathname.endsWith('/sample-groups')) return Response.json([]);
    return Response.json(pathname.endsWith('/r') ? run : { items: [], next: null, total: 0, columns: [] });
  };
  return known;
});

import { openFeed } from '../../api/live';
import { sessionQuery } from '../../api/queries';
import { newQueries } from '../../app/queries';
import { draw, PATIENCE } from '../../test-drawing';
import { RunPage } from './RunPage';
import { run as route } from './route';

const STEERING = ['4 in flight', 'Pause', 'Cancel'];

it.each([true, false])(
  'offers a session that may write (%s) to steer the run',
  async (canWrite) => {
    session.can_write = canWrite;
    const queries = newQueries();
    openFeed(queries);
    draw(route, RunPage, '/runs/r?tab=samples', queries);
    await screen.findByText('Run again with changes', {}, PATIENCE);
    await expect.poll(() => queries.getQueryData(sessionQuery.queryKey)?.can_write, PATIENCE).toBe(canWrite);
    for (const name of STEERING) {
      if (canWrite) expect(await screen.findByText(name, {}, PATIENCE)).toBeTruthy();
      else expect(screen.queryByText(name)).toBeNull();
    }
  },
  180_000,
);
