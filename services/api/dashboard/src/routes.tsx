/** The routes: a page is a folder of pages/ with a route.ts, and one line here. */
import { createRouter } from '@tanstack/react-router';
import { Fault, root } from './app/root';
import { compare } from './pages/compare/route';
import { experiment } from './pages/experiment/route';
import { experiments } from './pages/experiments/route';
import { home } from './pages/home/route';
import { registry, registryEntry } from './pages/registry/route';
import { reports } from './pages/reports/route';
import { run } from './pages/run/route';
import { runs } from './pages/runs/route';
import { sample } from './pages/sample/route';
import { workers } from './pages/workers/route';
import { Loading } from './ui/Notes';

const routes = root.addChildren([
  home,
  runs,
  run,
  sample,
  compare,
  experiments,
  experiment,
  reports,
  registry,
  registryEntry,
  workers,
]);

export const router = createRouter({
  routeTree: routes,
  defaultPreload: 'intent',
  defaultErrorComponent: Fault,
  defaultPendingComponent: () => <Loading what="the page" />,
  scrollRestoration: true,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
