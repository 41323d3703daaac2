/** The runs of a comparison as they stand in its address; everything here is pure. */

/** The ids in their order, each once. */
export function idsOf(runs: string | undefined): string[] {
  const given = (runs ?? '').split(',').map((id) => id.trim());
  return [...new Set(given.filter((id) => id !== ''))];
}

/** The same runs with another baseline. */
export function withBaseline(ids: readonly string[], baseline: string): string {
  return [baseline, ...ids.filter((id) => id !== baseline)].join(',');
}
