/** Draws one page of the routes in a test, at an address, as the entry does. */
import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import {
  type AnyRoute,
  createMemoryHistory,
  createRouter,
  Outlet,
  type RouteComponent,
  RouterProvider,
} from '@tanstack/react-router';
import { render } from '@testing-library/react';
import { newQueries } from './app/queries';
import { root } from './app/root';

/** How long a test waits for what it expects: this long only where it fails. */
export const PATIENCE = { timeout: 60_000 };

export function draw(route: AnyRoute, page: RouteComponent, address: string, queries = newQueries()): void {
  root.update({ component: Outlet });
  route.update({ component: page });
  const history = createMemoryHistory({ initialEntries: [address] });
  const router = createRouter({ routeTree: root.addChildren([route]), history, context: { queries } });
  render(
    <MantineProvider>
      <QueryClientProvider client={queries}>
        <RouterProvider router={router as never} />
      </QueryClientProvider>
    </MantineProvider>,
  );
}
