/** The newest finished runs with their first score and speed. */
import { Link } from '@tanstack/react-router';
import type { Listed } from '../runs/listed';
import { RunsTable } from '../runs/RunsTable';

export function RecentRuns({ runs }: { runs: readonly Listed[] }) {
  if (runs.length === 0) return null;
  return (
    <section className="card" aria-label="Finished runs">
      <header>
        <h2>Finished</h2>
        <Link to="/runs">All runs</Link>
      </header>
      <RunsTable runs={runs} label="Finished runs" />
    </section>
  );
}
