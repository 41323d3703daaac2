/** Which samples are listed, as the address says it: filters of the API, words, an order and a baseline. Pure. */
import { equals } from '../../api/filters';

export interface SampleSearch {
  /** Filters as the API reads them: `outcome=answered`, `metrics.anls<0.5`. */
  where?: string[];
  q?: string;
  order?: string;
  /** The run against whose answers flips are shown. */
  against?: string;
}

const OPERATORS = ['!=', '<=', '>=', '=', '<', '>', '~'] as const;
const MAX_FILTERS = 20;

/** Text of the address; the router reads what looks like a number as one. */
export function text(value: unknown): string | undefined {
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return typeof value === 'string' && value !== '' ? value : undefined;
}

export function readSampleSearch(search: Record<string, unknown>): SampleSearch {
  const given = (Array.isArray(search.where) ? search.where : [search.where]).map(text);
  const where = given.filter((filter) => filter !== undefined).slice(0, MAX_FILTERS);
  const [q, order, against] = [text(search.q), text(search.order), text(search.against)];
  return {
    ...(where.length > 0 && { where }),
    ...(q !== undefined && { q }),
    ...(order !== undefined && { order }),
    ...(against !== undefined && { against }),
  };
}

export function columnOf(filter: string): string {
  const ends = OPERATORS.map((operator) => filter.indexOf(operator)).filter((at) => at > 0);
  return ends.length === 0 ? filter : filter.slice(0, Math.min(...ends)).trim();
}

/** Replace the filter of a column that a control sets; null removes it. */
export function choose(where: readonly string[] | undefined, column: string, value: string | null): string[] {
  const others = (where ?? []).filter((filter) => !filter.startsWith(`${column}=`));
  return value === null ? others : [...others, equals(column, value)];
}

/** The filters that no control shows, such as bounds of a metric. */
export function freeFilters(where: readonly string[] | undefined, columns: readonly string[]): string[] {
  return (where ?? []).filter((filter) => !columns.some((column) => filter.startsWith(`${column}=`)));
}

export function isFilter(written: string): boolean {
  return OPERATORS.some((operator) => written.indexOf(operator) > 0);
}

export function isPlain(search: SampleSearch): boolean {
  return !search.where && !search.q && !search.order;
}

/** Merge a change into a search; what became empty leaves the address. */
export function changed<Search extends SampleSearch>(old: Search, change: Partial<SampleSearch>): Search {
  const merged = Object.entries({ ...old, ...change }).filter(
    ([, value]) => value !== undefined && value !== '' && !(Array.isArray(value) && value.length === 0),
  );
  return Object.fromEntries(merged) as unknown as Search;
}
