import { expect, it } from 'vitest';
import { idsOf, withBaseline } from './ids';

it('reads the ids of an address in their order, each once', () => {
  expect(idsOf('b, a,,b')).toEqual(['b', 'a']);
  expect(idsOf(undefined)).toEqual([]);
});

it('puts another run in the place of the baseline', () => {
  expect(withBaseline(['a', 'b', 'c'], 'c')).toBe('c,a,b');
});
