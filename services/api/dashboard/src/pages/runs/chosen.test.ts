import { describe, expect, it } from 'vitest';
import { idsOf, toggled, withBaseline } from './chosen';

it('reads the ids of an address in their order, each once', () => {
  expect(idsOf('b, a,,b')).toEqual(['b', 'a']);
  expect(idsOf(undefined)).toEqual([]);
});

it('puts another run in the place of the baseline', () => {
  expect(withBaseline(['a', 'b', 'c'], 'c')).toBe('c,a,b');
});

describe('what is chosen', () => {
  it('is added last, and leaves the address when nothing is left', () => {
    expect(toggled(['a'], 'b')).toBe('a,b');
    expect(toggled(['a', 'b'], 'a')).toBe('b');
    expect(toggled(['a'], 'a')).toBeUndefined();
    expect(
      toggled(
        Array.from({ length: 100 }, (_, no) => `${no}`),
        'x',
      )?.split(','),
    ).toHaveLength(100);
  });
});
