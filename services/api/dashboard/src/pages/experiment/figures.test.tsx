import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { createMemoryHistory, createRouter, Outlet, RouterProvider } from '@tanstack/react-router';
import { render, screen, within } from '@testing-library/react';
import { expect, it, vi } from 'vitest';

vi.hoisted(() => {
  const columns = ['latency_p50_ms', 'metrics.anls'].map((name) => ({ name, kind: 'number', is_number: true }));
  globalThis.fetch = async (input) => {
    const { pathname } = new URL((input as Request).url);
    if (pathname.endsWith('/points')) return new Promise(() => undefined);
    if (pathname.endsWith('/axes')) return Response.json({ message: 'The axes are away.' }, { status: 422 });
    return Response.json({ columns, tags: {}, tasks: {} });
  };
});

import { newQueries } from '../../app/queries';
import { root } from '../../app/root';
import { Figures } from './Figures';
import { experiment } from './route';

const PATIENCE = { timeout: 60_000 };

it('does not say that no run has the values before it has read them, and says what it could not read', async () => {
  root.update({ component: Outlet });
  experiment.update({ component: () => <Figures id="e" /> });
  const router = createRouter({
    routeTree: root.addChildren([experiment]),
    history: createMemoryHistory({ initialEntries: ['/experiments/e'] }),
  });
  render(
    <MantineProvider>
      <QueryClientProvider client={newQueries()}>
        <RouterProvider router={router as never} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  expect(await screen.findByText('The axes are away.', {}, PATIENCE)).toBeTruthy();
  const pareto = within(screen.getByLabelText('Pareto', { selector: 'section' }));
  expect(pareto.getByText('Loading points …')).toBeTruthy();
  expect(pareto.queryByText(/No run of the experiment/)).toBeNull();
}, 180_000);
