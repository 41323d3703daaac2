import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { createMemoryHistory, createRouter, Outlet, RouterProvider } from '@tanstack/react-router';
import { render, screen } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { expect, it, vi } from 'vitest';

const asked: URL[] = vi.hoisted(() => {
  const urls: URL[] = [];
  const row = { id: '0.0', key: 'first', outcome: 'answered', text: 'yes', value: null, latency_ms: 1 };
  globalThis.fetch = async (input) => {
    const url = new URL((input as Request).url);
    urls.push(url);
    if (url.searchParams.has('cursor')) return Response.json({ message: 'The cursor is old.' }, { status: 422 });
    if (url.pathname.endsWith('/samples'))
      return Response.json({ items: [row], next: 'more', total: 2, matching: null, columns: [] });
    return Response.json(url.pathname.endsWith('/rows') ? { items: [], next: null } : []);
  };
  return urls;
});

import type { RunDetail } from '../../api/queries';
import { newQueries } from '../../app/queries';
import { root } from '../../app/root';
import { run } from './route';
import { Samples } from './Samples';

const PATIENCE = { timeout: 60_000 };
const pages = () => asked.filter((url) => url.searchParams.has('cursor')).length;

it('asks for a page that has failed again only when the person says so', async () => {
  const detail = { id: 'r', state: 'SUCCEEDED', task: 't', done: 2 } as RunDetail;
  root.update({ component: Outlet });
  run.update({ component: () => <Samples run={detail} /> });
  const router = createRouter({
    routeTree: root.addChildren([run]),
    history: createMemoryHistory({ initialEntries: ['/runs/r'] }),
  });
  render(
    <MantineProvider>
      <QueryClientProvider client={newQueries()}>
        <RouterProvider router={router as never} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  const again = await screen.findByRole('button', { name: 'Try again' }, PATIENCE);
  expect(pages()).toBe(1);
  await userEvent.setup().click(again);
  await expect.poll(pages, PATIENCE).toBe(2);
  await screen.findByRole('button', { name: 'Try again' }, PATIENCE);
  expect(pages()).toBe(2);
}, 180_000);
