/** Axes of the builder and their filters; everything here is pure. */
import type { Column, Goal } from '../../api/listing';

/** Which end of a column is good; null where nothing says so. */
export function directionOf(column: string, columns: readonly Column[]): Goal | null {
  return columns.find(({ name }) => name === column)?.direction ?? null;
}

/** The goal of an axis: what the person has chosen, else the column's direction; without one, more is taken to be better. */
export function goalOf(column: string, columns: readonly Column[], chosen?: Goal): Goal {
  return chosen ?? directionOf(column, columns) ?? 'higher';
}

/** What is to be known of a goal: that nothing states it, or states the other one; empty where the column states it. */
export function noteOf(column: string, columns: readonly Column[], chosen?: Goal): string {
  if (column === '') return '';
  const direction = directionOf(column, columns);
  if (direction === null) {
    return `Its direction is not known: ${chosen ? 'this is your choice' : 'more is taken to be better'}.`;
  }
  if (chosen === undefined || chosen === direction) return '';
  return `Its own direction is the other one: ${direction === 'higher' ? 'more' : 'less'} is better.`;
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
