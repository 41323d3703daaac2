/** The files of reports as one entry for each run and experiment, the newest first; everything here is pure. */
import type { Schemas } from '../../api/client';

export type Artifact = Schemas['ReportFile'];

export interface Reported {
  id: string;
  scope: 'run' | 'experiment';
  name: string;
  created_at: string;
  /** The report in its formats; figures and pages are opened from within it. */
  files: Artifact[];
}

export function scopesOf(artifacts: readonly Artifact[]): Reported[] {
  const known = new Map<string, Reported>();
  for (const artifact of artifacts) {
    const scope = artifact.run_id === null ? 'experiment' : 'run';
    const id = artifact.run_id ?? artifact.experiment_id;
    if (id === null) continue;
    const entry = known.get(id) ?? { id, scope, name: artifact.scope_name, created_at: artifact.created_at, files: [] };
    const isNew = !entry.files.some((file) => file.name === artifact.name);
    if (isNew) entry.files.push(artifact);
    known.set(id, entry);
  }
  return [...known.values()];
}
