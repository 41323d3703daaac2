import { expect, it } from 'vitest';
import { type Artifact, scopesOf } from './scopes';

function file(name: string, run_id: string | null, experiment_id: string | null): Artifact {
  return { id: `${run_id}${experiment_id}${name}`, name, run_id, experiment_id, created_at: '2026-01-01' } as Artifact;
}

it('has one entry for each run and experiment, with the newest report in each format', () => {
  const newest = file('report.html', 'r', 'e');
  const files = [newest, file('report.md', null, 'e'), file('report.html', 'r', 'e')];
  const entries = scopesOf(files);
  expect(entries.map(({ id, scope }) => [id, scope])).toEqual([
    ['r', 'run'],
    ['e', 'experiment'],
  ]);
  expect(entries[0]?.files).toEqual([newest]);
  expect(entries[0]?.files[0]).toBe(newest);
});
