/** The entry that the form holds: plain JSON, changed by paths. What is valid decides the API. Everything here is pure. */

export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };
export type Entry = { [key: string]: Json };
export type Path = readonly string[];

/** Longer entries are not written into the address. */
export const MAX_IN_ADDRESS = 1500;

export function isObject(value: unknown): value is { [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function valueAt(entry: Json | undefined, path: Path): Json | undefined {
  let value = entry;
  for (const key of path) value = isObject(value) ? value[key] : undefined;
  return value;
}

/** Return the entry with a value at a path; undefined removes it, and objects that it leaves empty. */
export function withValue(entry: Entry, path: Path, value: Json | undefined): Entry {
  const [key, ...rest] = path;
  if (key === undefined) return entry;
  const inner = isObject(entry[key]) ? entry[key] : {};
  const next = rest.length > 0 ? emptied(withValue(inner, rest, value)) : value;
  const { [key]: _, ...others } = entry;
  if (next === undefined) return others;
  return key in entry ? { ...entry, [key]: next } : { ...entry, [key]: next };
}

function emptied(value: Entry): Entry | undefined {
  return Object.keys(value).length === 0 ? undefined : value;
}

/** The text of an input as a value: a number where it reads as one, nothing where it is empty, else the text itself. */
export function numberOr(text: string): Json | undefined {
  const trimmed = text.trim();
  if (trimmed === '') return undefined;
  const number = Number(trimmed);
  return Number.isFinite(number) && /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(trimmed) ? number : text;
}

/** The text of an area as JSON; text that is not JSON stays text, which the API refuses at its field. */
export function jsonOr(text: string): Json | undefined {
  if (text.trim() === '') return undefined;
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}

export function linesOf(text: string): Json | undefined {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  return lines.length === 0 ? undefined : lines;
}

/** Whether there is enough for a plan to be asked for. */
export function isBegun(entry: Entry): boolean {
  return Object.keys(entry).length > 0;
}
