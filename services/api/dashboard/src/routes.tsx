/** The routes: a page is a folder of pages/ with a route.ts, and one line here. */
import { createRouter } from '@tanstack/react-router';
import { newQueries } from './app/queries';
import { Fault, root } from './app/root';
import { compare } from './pages/compare/route';
import { experiment } from './pages/experiment/route';
import { experiments } from './pages/experiments/route';
import { explore } from './pages/explore/route';
import { health } from './pages/health/route';
import { home } from './pages/home/route';
import { leaderboard } from './pages/leaderboard/route';
import { load, loads } from './pages/load/route';
import { newRun } from './pages/new-run/route';
import { pipelines } from './pages/pipelines/route';
import { registry, registryEntry } from './pages/registry/route';
import { reports } from './pages/reports/route';
import { run } from './pages/run/route';
import { runs } from './pages/runs/route';
import { sample } from './pages/sample/route';
import { settings } from './pages/settings/route';
import { workers } from './pages/workers/route';
import { Loading } from './ui/Notes';

const routes = root.addChildren([
  home,
  runs,
  newRun,
  run,
  sample,
  compare,
  experiments,
  experiment,
  reports,
  loads,
  load,
  registry,
  registryEntry,
  pipelines,
  workers,
  leaderboard,
  explore,
  health,
  settings,
]);

export const queries = newQueries();

export const router = createRouter({
  routeTree: routes,
  context: { queries },
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
