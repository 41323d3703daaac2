/** The root of the routes: the shell around every page, and what is shown for wrong addresses and faults of a page. */
import { Button } from '@mantine/core';
import type { QueryClient } from '@tanstack/react-query';
import { createRootRouteWithContext, type ErrorComponentProps, Link, useRouter } from '@tanstack/react-router';
import { Shell } from './Shell';

/** What routes read before their page is drawn. */
interface Context {
  queries: QueryClient;
}

export const root = createRootRouteWithContext<Context>()({ component: Shell, notFoundComponent: NotFound });

export function NotFound() {
  return (
    <div className="note">
      <h1>There is no such page</h1>
      <p className="note-text">
        The address names none. Go to the <Link to="/">home page</Link>, or press <kbd>Ctrl</kbd> <kbd>K</kbd> to look
        for a run.
      </p>
    </div>
  );
}

/** A fault of a page's own code: the rest of the dashboard works on. */
export function Fault({ error, reset }: ErrorComponentProps) {
  const router = useRouter();
  const again = () => {
    reset();
    void router.invalidate();
  };
  return (
    <div className="note problem" role="alert">
      <h1>This page failed</h1>
      <p className="note-text">
        It is a fault of the dashboard, and your runs are not touched. Load it again; if it fails again, report this:
      </p>
      <pre className="fault">{error instanceof Error ? `${error.name}: ${error.message}` : String(error)}</pre>
      <Button size="xs" variant="default" onClick={again}>
        Load it again
      </Button>
    </div>
  );
}
