/** The metrics by which runs may be ranked. */

/** Return the names of the metrics that columns have scores of. */
export function metricsOf(columns: readonly { name: string }[]): string[] {
  const names = new Set(columns.map(({ name }) => name));
  return [...names]
    .filter((name) => name.startsWith('metrics.') && names.has(`${name}.n_scored`))
    .map((name) => name.slice('metrics.'.length));
}
