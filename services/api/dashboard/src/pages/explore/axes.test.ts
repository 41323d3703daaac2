import { describe, expect, it } from 'vitest';
import { boundsOf, defaultAxes, endsOf, goalOf, withBounds } from './axes';

describe('the goal of an axis', () => {
  it('is less of times, bytes, costs and error rates, and more of all else', () => {
    const names = ['latency_p99_ms', 'peak_memory_bytes', 'metrics.cer', 'cost_total', 'duration_s'];
    expect(names.map(goalOf)).toEqual(Array(5).fill('lower'));
    expect(['metrics.anls', 'output_tokens_per_s', 'metrics.exact_match'].map(goalOf)).toEqual(Array(3).fill('higher'));
  });
});

describe('the bounds of a column', () => {
  it('are filters, of which an open end is left out', () => {
    const where = withBounds(['state=SUCCEEDED', 'a>=1', 'a<=9', 'ab>=3'], 'a', { low: null, high: 4 });
    expect(where).toEqual(['state=SUCCEEDED', 'ab>=3', 'a<=4']);
    expect(boundsOf('a', where)).toEqual({ low: null, high: 4 });
    expect(boundsOf('ab', where)).toEqual({ low: 3, high: null });
    expect(boundsOf('x', ['x>=many'])).toEqual({ low: null, high: null });
  });
});

describe('the axes', () => {
  it('are a quality against a speed, and need both ends for an interval', () => {
    expect(defaultAxes(['priority', 'metrics.anls.low', 'metrics.anls', 'latency_p50_ms'])).toEqual({
      x: 'latency_p50_ms',
      y: 'metrics.anls',
    });
    expect(defaultAxes([])).toEqual({ x: undefined, y: undefined });
    expect(endsOf('a', new Set(['a.low']))).toBeNull();
    expect(endsOf('a', new Set(['a.low', 'a.high']))).toEqual(['a.low', 'a.high']);
  });
});
