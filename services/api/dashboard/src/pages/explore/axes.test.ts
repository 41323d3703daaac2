import { describe, expect, it } from 'vitest';
import type { Column } from '../../api/listing';
import { boundsOf, defaultAxes, directionOf, endsOf, goalOf, noteOf, withBounds } from './axes';

describe('the goal of an axis', () => {
  it('is the direction that the column states, and more where it states none', () => {
    const column = (name: string, direction: Column['direction']): Column => ({
      name,
      kind: 'value',
      is_number: true,
      direction,
    });
    const columns = [
      column('metrics.omnidocbench@text', 'lower'),
      column('metrics.cereal', 'higher'),
      column('priority', null),
    ];
    const names = ['metrics.omnidocbench@text', 'metrics.cereal', 'priority', 'latency_gone_ms'];
    expect(names.map((name) => goalOf(name, columns))).toEqual(['lower', 'higher', 'higher', 'higher']);
    expect(names.map((name) => directionOf(name, columns))).toEqual(['lower', 'higher', null, null]);
    expect(goalOf('metrics.cereal', columns, 'lower')).toBe('lower');
    expect(names.map((name) => noteOf(name, columns) !== '')).toEqual([false, false, true, true]);
    expect(noteOf('metrics.cereal', columns, 'higher')).toBe('');
    expect(noteOf('metrics.cereal', columns, 'lower')).toContain('more is better');
    expect(noteOf('priority', columns, 'lower')).toContain('your choice');
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
