/** Axes of the builder and their filters; everything here is pure. */
import type { Goal } from '../../api/listing';

/** Columns that grow when something gets worse; of all others more is taken to be better, until the person says so. */
const LOWER =
  /(_ms|_s|_bytes|cer|wer|ter|error|failed|_unscored|cost|power|energy)(\.|_|$)|^(latency|ttft|tpot|duration|cost|total)/;

export function goalOf(column: string): Goal {
  return LOWER.test(column) && !/per_s$/.test(column) ? 'lower' : 'higher';
}

/** The columns that hold the ends of an axis' interval, where runs have them. */
export function endsOf(column: string, known: ReadonlySet<string>): [string, string] | null {
  const ends: [string, string] = [`${column}.low`, `${column}.high`];
  return ends.every((name) => known.has(name)) ? ends : null;
}

export interface Bounds {
  low: number | null;
  high: number | null;
}

/** What the filters leave of a column. */
export function boundsOf(column: string, where: readonly string[]): Bounds {
  const bound = (operator: string) => {
    const filter = where.find((text) => text.startsWith(`${column}${operator}`));
    const value = filter === undefined ? Number.NaN : Number(filter.slice(column.length + operator.length));
    return Number.isFinite(value) ? value : null;
  };
  return { low: bound('>='), high: bound('<=') };
}

/** The filters with other bounds of a column; an end that leaves everything is left out. */
export function withBounds(where: readonly string[], column: string, { low, high }: Bounds): string[] {
  const others = where.filter((text) => !text.startsWith(`${column}>=`) && !text.startsWith(`${column}<=`));
  return [...others, ...(low === null ? [] : [`${column}>=${low}`]), ...(high === null ? [] : [`${column}<=${high}`])];
}

/** The axes that the builder opens with: the first quality against the first speed. */
export function defaultAxes(columns: readonly string[]): { x: string | undefined; y: string | undefined } {
  const isQuality = (name: string) => /^metrics\.[^.]+$/.test(name);
  const y = columns.find(isQuality) ?? columns[0];
  const x = ['latency_p50_ms', 'peak_memory_bytes', 'output_tokens_per_s'].find((name) => columns.includes(name));
  return { x: x ?? columns.find((name) => name !== y), y };
}
