/** Runs that an address names by their ids, separated by commas; everything here is pure. */

/** The most runs that are chosen at once: as many as a filter has values. */
const MAX_CHOSEN = 100;

/** The ids in their order, each once. */
export function idsOf(runs: string | undefined): string[] {
  const given = (runs ?? '').split(',').map((id) => id.trim());
  return [...new Set(given.filter((id) => id !== ''))].slice(0, MAX_CHOSEN);
}

/** The same runs with or without one; undefined where none is left. */
export function toggled(ids: readonly string[], id: string): string | undefined {
  const others = ids.filter((known) => known !== id);
  return (others.length < ids.length ? others : [...ids, id].slice(-MAX_CHOSEN)).join(',') || undefined;
}

/** The same runs with another baseline. */
export function withBaseline(ids: readonly string[], baseline: string): string {
  return [baseline, ...ids.filter((id) => id !== baseline)].join(',');
}
