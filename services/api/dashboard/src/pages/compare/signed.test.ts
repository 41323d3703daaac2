import { expect, it } from 'vitest';
import { signed } from './signed';

it('writes the sign of a difference, and none where it rounds to zero', () => {
  expect([0.1234, -0.5, 0, -0.0001, null].map((value) => signed(value))).toEqual([
    '+0.123',
    '−0.500',
    '0.000',
    '0.000',
    '–',
  ]);
});
