import { describe, expect, it } from 'vitest';
import { column, instant } from './format';

describe('the name of a column', () => {
  it('has its unit in brackets and no prefix', () => {
    const names = ['metrics.exact_match', 'latency_p50_ms', 'duration_s', 'output_tokens_per_s', 'peak_memory_bytes'];
    expect(names.map(column)).toEqual([
      'exact match',
      'latency p50 (ms)',
      'duration (s)',
      'output tokens per s',
      'peak memory (bytes)',
    ]);
  });
});

describe('an instant', () => {
  it('is written in UTC, or in the zone of the browser', () => {
    expect(instant('2026-01-02T03:04:05.6Z')).toBe('2026-01-02 03:04:05 UTC');
    expect(instant('2026-01-02T03:04:05.6Z', 'local')).toMatch(/^2026-01-0[123] \d\d:\d\d:05/);
    expect(instant(null, 'local')).toBe('–');
  });
});
