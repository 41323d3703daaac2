import { describe, expect, it } from 'vitest';
import { bandsOf, liveStripsOf, slowestOf, stripsOf } from './strips';

const series = {
  claim_id: 'a',
  host: 'host',
  job: 'GENERATE',
  at_ms: [2_000, 4_000],
  mean: { cpu_util_percent: [10, null], engine_rss_bytes: [1024 ** 3, 2 * 1024 ** 3] },
  max: { cpu_util_percent: [20, null], engine_rss_bytes: [1024 ** 3, 3 * 1024 ** 3] },
  overall_mean: {},
  overall_max: {},
  samples: 10,
};
const claim = { kind: 'claim' as const, name: 'GENERATE', id: 'a', host: 'host', state: 'DONE' };
const phase = { kind: 'phase' as const, name: 'accuracy', id: '1', host: null, state: 'COMPLETE' };

describe('resources', () => {
  it('have one clock, which begins with the first span', () => {
    const spans = [
      { ...claim, start_ms: 1_000, end_ms: 5_000 },
      { ...phase, start_ms: 2_000, end_ms: null },
    ];
    const resources = { series: [series], spans, missing: [] };
    const { bands, from, to } = bandsOf(resources);
    expect([from, to]).toEqual([1_000, 5_000]);
    expect(bands.map((band) => [band.kind, band.from, band.to])).toEqual([
      ['phase', 0.25, 1],
      ['claim', 0, 1],
    ]);
    const strips = stripsOf(resources);
    expect(strips.map(({ title }) => title)).toEqual(['Memory', 'CPU']);
    expect(strips[0]?.lines[0]).toMatchObject({ what: 'engine', at_s: [1, 3], mean: [1, 2], max: [1, 3] });
    expect(strips[1]?.lines[0]?.mean).toEqual([10, null]);
  });

  it('end now where a claim is open, whatever the clocks say', () => {
    const spans = [
      { ...claim, state: 'RUNNING', start_ms: 2_000, end_ms: null },
      { ...phase, start_ms: 1_000, end_ms: null },
    ];
    const { bands, from, to } = bandsOf({ series: [], spans, missing: [] }, 9_000);
    expect([from, to]).toEqual([1_000, 9_000]);
    expect(bands.map((band) => [band.from, band.to])).toEqual([
      [0, 1],
      [0.125, 1],
    ]);
    expect(bandsOf({ series: [], spans, missing: [] }, 500).to).toBe(2_000);
  });

  it('of a run that has none are empty', () => {
    expect(bandsOf({ series: [], spans: [], missing: [] }).bands).toEqual([]);
    expect(stripsOf({ series: [], spans: [], missing: [] })).toEqual([]);
  });
});

describe('strips of what runs now', () => {
  it('have seconds from the first sample, and no line for what is not measured', () => {
    const at = (second: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString();
    const strips = liveStripsOf([
      { at: at(0), cpu_util_percent: 50, memory_used_bytes: 1024 ** 3, accelerator_util_percent: null },
      { at: at(2), cpu_util_percent: 70, memory_used_bytes: 2 * 1024 ** 3, accelerator_util_percent: null },
    ]);
    expect(strips.map(({ title }) => title)).toEqual(['Memory', 'CPU']);
    expect(strips[0]?.lines).toEqual([{ what: 'machine', name: 'machine', at_s: [0, 2], mean: [1, 2], max: null }]);
  });

  it('are none without a sample', () => {
    expect(liveStripsOf([])).toEqual([]);
  });
});

it('has no longest latency of requests that have none', () => {
  expect(slowestOf([{ latency_ms: null }, {}])).toBeNull();
  expect(slowestOf([{ latency_ms: 0.4 }, { latency_ms: null }, { latency_ms: 0.2 }])).toBe(0.4);
});
