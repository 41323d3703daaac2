/** Numbers as people read them: grouped, with units, and a dash where there is none. Everything here is pure. */

export const NONE = '–';
const THIN = '\u202f';
type Maybe = number | null | undefined;

function isNumber(value: Maybe): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}

/** A count with thin spaces between groups of three digits. */
export function count(value: Maybe): string {
  if (!isNumber(value)) return NONE;
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+(?!\d))/g, THIN);
}

/** A fixed number of decimals, which keeps columns aligned; a minus sign instead of a hyphen. */
export function fixed(value: Maybe, digits: number): string {
  return isNumber(value) ? value.toFixed(digits).replace(/^-/, '−') : NONE;
}

/** A score between 0 and 1. */
export function score(value: Maybe): string {
  return fixed(value, 3);
}

/** The bounds of an interval; empty where there is none. */
export function interval(low: Maybe, high: Maybe, show: (value: Maybe) => string = score): string {
  return isNumber(low) && isNumber(high) ? `${show(low)}${THIN}–${THIN}${show(high)}` : '';
}

/** Three significant digits, in plain notation. */
export function significant(value: Maybe): string {
  if (!isNumber(value)) return NONE;
  if (value === 0) return '0';
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return Math.abs(value) >= 1000 ? count(value) : fixed(value, Math.min(digits, 6));
}

export function milliseconds(value: Maybe): string {
  if (!isNumber(value)) return NONE;
  if (value < 1000) return `${significant(value)}${THIN}ms`;
  if (value < 60_000) return `${significant(value / 1000)}${THIN}s`;
  return seconds(value / 1000);
}

/** A span of time: `42 s`, `3 m 05 s`, `2 h 10 m`, `4 d 3 h`. */
export function seconds(value: Maybe): string {
  if (!isNumber(value)) return NONE;
  if (value < 60) return `${value < 10 ? significant(value) : Math.round(value)}${THIN}s`;
  const whole = Math.round(value);
  const pair = (first: number, one: string, second: number, other: string) =>
    `${first}${THIN}${one} ${String(second).padStart(2, '0')}${THIN}${other}`;
  if (whole < 3600) return pair(Math.floor(whole / 60), 'm', whole % 60, 's');
  if (whole < 86_400) return pair(Math.floor(whole / 3600), 'h', Math.floor((whole % 3600) / 60), 'm');
  return pair(Math.floor(whole / 86_400), 'd', Math.floor((whole % 86_400) / 3600), 'h');
}

const BYTES = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function bytes(value: Maybe): string {
  if (!isNumber(value)) return NONE;
  let [rest, unit] = [value, 0];
  while (Math.abs(rest) >= 1024 && unit < BYTES.length - 1) [rest, unit] = [rest / 1024, unit + 1];
  return `${unit === 0 ? count(rest) : significant(rest)}${THIN}${BYTES[unit]}`;
}

export function perSecond(value: Maybe, unit = ''): string {
  return isNumber(value) ? `${significant(value)}${THIN}${unit}/s` : NONE;
}

export function percent(share: Maybe, digits = 0): string {
  return isNumber(share) ? `${fixed(share * 100, digits)}${THIN}%` : NONE;
}

export function money(value: Maybe, currency: string | null | undefined): string {
  return isNumber(value) ? `${significant(value)}${THIN}${currency ?? ''}`.trim() : NONE;
}

/** How long ago an instant was; the exact instant belongs beside it, as a title. */
export function ago(instant: string | null | undefined, now: number = Date.now()): string {
  if (!instant) return NONE;
  const past = (now - Date.parse(instant)) / 1000;
  if (Number.isNaN(past)) return NONE;
  if (past < 5) return 'now';
  if (past < 60) return `${Math.floor(past)}${THIN}s ago`;
  if (past < 3600) return `${Math.floor(past / 60)}${THIN}min ago`;
  if (past < 86_400) return `${Math.floor(past / 3600)}${THIN}h ago`;
  return `${Math.floor(past / 86_400)}${THIN}d ago`;
}

/** An exact instant, in UTC or in the browser's own zone. */
export function instant(text: string | null | undefined, zone: 'UTC' | 'local' = 'UTC'): string {
  if (!text) return NONE;
  if (zone === 'UTC') return `${text.slice(0, 10)} ${text.slice(11, 19)} UTC`;
  return new Date(text).toLocaleString('sv-SE', { dateStyle: 'short', timeStyle: 'long' });
}

/** Metric names as a reader sees them: `exact_match` → `exact match`. */
export function words(name: string): string {
  return name.replaceAll('_', ' ');
}

const UNITS: readonly (readonly [RegExp, string])[] = [
  [/_per_s$/, ' per s'],
  [/_ms$/, ' (ms)'],
  [/_s$/, ' (s)'],
  [/_bytes$/, ' (bytes)'],
];

/** Columns of runs as a reader sees them: `metrics.exact_match` → `exact match`, `latency_p50_ms` → `latency p50 (ms)`. */
export function column(name: string): string {
  const [pattern, unit] = UNITS.find(([ending]) => ending.test(name)) ?? [/$/, ''];
  return words(name.replace(/^(metrics|spec)\./, '').replace(pattern, unit));
}

/** The first eight characters of an id, which the command line accepts too. */
export function shortId(id: string): string {
  return id.slice(0, 8);
}
