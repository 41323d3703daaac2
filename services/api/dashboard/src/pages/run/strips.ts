/** The series of a run as strips of one time axis, and its spans as bands of the same axis. Pure. */

import type { Schemas } from '../../api/client';
import type { ResourcePoint, Sample } from '../../api/details';
import { seconds, words } from '../../ui/format';

type Resources = Schemas['RunResources'];

export interface Line {
  name: string;
  /** What it measures: the accelerator, the engine or the machine. */
  what: string;
  at_s: number[];
  mean: (number | null)[];
  /** Null where each value is of one sample. */
  max: (number | null)[] | null;
}

export interface Strip {
  name: string;
  title: string;
  unit: string;
  lines: Line[];
}

export interface Band {
  kind: 'claim' | 'phase';
  id: string;
  name: string;
  title: string;
  /** Ends, as shares of the time of the run. */
  from: number;
  to: number;
}

const GIB = 1024 ** 3;
const KINDS: readonly { title: string; unit: string; by: number; of: Record<string, string> }[] = [
  {
    title: 'Memory',
    unit: 'GiB',
    by: 1 / GIB,
    of: { accelerator_memory_used_bytes: 'accelerator', engine_rss_bytes: 'engine', memory_used_bytes: 'machine' },
  },
  { title: 'Utilisation of the accelerator', unit: '%', by: 1, of: { accelerator_util_percent: 'accelerator' } },
  { title: 'CPU', unit: '%', by: 1, of: { cpu_util_percent: 'machine' } },
  { title: 'Power', unit: 'W', by: 1, of: { power_accelerator_w: 'accelerator' } },
  { title: 'Temperature', unit: '°C', by: 1, of: { temperature_accelerator_c: 'accelerator' } },
];

/** The strips that any claim has values for; each claim is a line of its own, seconds from the first span. */
export function stripsOf(resources: Resources): Strip[] {
  const { from } = bandsOf(resources);
  const isSingle = resources.series.length === 1;
  return KINDS.map(({ title, unit, by, of }) => ({
    name: title,
    title,
    unit,
    lines: resources.series.flatMap((series, no) =>
      Object.entries(of)
        .filter(([name]) => series.mean[name] !== undefined)
        .map(([name, what]) => ({
          what,
          name: isSingle ? what : `${what}, claim ${no + 1}`,
          at_s: series.at_ms.map((at) => (at - from) / 1000),
          mean: scaled(series.mean[name], by),
          max: scaled(series.max[name], by),
        })),
    ),
  })).filter(({ lines }) => lines.length > 0);
}

function scaled(values: readonly (number | null)[] | undefined, by: number): (number | null)[] {
  return (values ?? []).map((value) => (value === null ? null : value * by));
}

/** The spans as bands; one that is open ends `now`, or with the others where the run has ended without closing it. */
export function bandsOf(resources: Resources, now?: number): { bands: Band[]; from: number; to: number } {
  const measured = resources.series.flatMap(({ at_ms }) => [at_ms[0], at_ms.at(-1)]).filter((at) => at !== undefined);
  const starts = [...resources.spans.map(({ start_ms }) => start_ms), ...measured];
  const ends = [
    ...resources.spans.map(({ end_ms, start_ms }) => end_ms ?? Math.max(start_ms, now ?? start_ms)),
    ...measured,
  ];
  if (starts.length === 0) return { bands: [], from: 0, to: 0 };
  const from = starts.reduce((least, start) => Math.min(least, start));
  const to = Math.max(
    from + 1,
    ends.reduce((last, end) => Math.max(last, end)),
  );
  const share = (at: number) => (at - from) / (to - from);
  const bands = [...resources.spans]
    .sort((first, second) =>
      first.kind === second.kind ? first.start_ms - second.start_ms : first.kind === 'phase' ? -1 : 1,
    )
    .map((span) => ({
      kind: span.kind,
      id: span.id,
      name: words(span.name.toLowerCase()),
      title: `${span.kind} ${words(span.name.toLowerCase())}: ${seconds((span.start_ms - from) / 1000)} to ${
        span.end_ms === null ? 'now' : seconds((span.end_ms - from) / 1000)
      }`,
      from: share(span.start_ms),
      to: span.end_ms === null ? 1 : share(span.end_ms),
    }));
  return { bands, from, to };
}

/** The strips of single samples of what runs now, in seconds from the first; those that nothing was measured for are left out. */
export function liveStripsOf(points: readonly ResourcePoint[]): Strip[] {
  const first = Date.parse(points[0]?.at ?? '');
  const at_s = points.map(({ at }) => (Date.parse(at) - first) / 1000);
  return KINDS.map(({ title, unit, by, of }) => ({
    name: title,
    title,
    unit,
    lines: Object.entries(of).flatMap(([name, what]) => {
      const values = points.map((point) => point[name as keyof ResourcePoint] as number | null | undefined);
      const mean = values.map((value) => (value === null || value === undefined ? null : value * by));
      return mean.every((value) => value === null) ? [] : [{ what, name: what, at_s, mean, max: null }];
    }),
  })).filter(({ lines }) => lines.length > 0);
}

/** The longest known latency of requests; null where none of them has one, as of requests that failed. */
export function slowestOf(samples: readonly Pick<Sample, 'latency_ms'>[]): number | null {
  const known = samples.flatMap(({ latency_ms }) => latency_ms ?? []);
  return known.length === 0 ? null : Math.max(...known);
}
