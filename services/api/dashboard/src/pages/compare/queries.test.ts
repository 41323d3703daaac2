import { describe, expect, it } from 'vitest';
import { paired, type Sample } from './queries';

function sample(key: string | null, repeat: number, text: string): Sample {
  return { id: `0.${text}`, key, repeat, text } as Sample;
}

describe('the pairs of flipped samples', () => {
  it('are answers to one sample and repeat, wherever they stand in their run', () => {
    const others = [sample('a', 0, 'a0'), sample('a', 1, 'a1'), sample('b', 0, 'b0')];
    const baselines = [sample('b', 0, 'B0'), sample('a', 1, 'A1')];
    expect(paired(others, baselines).map(({ other, baseline }) => [other.text, baseline?.text])).toEqual([
      ['a0', undefined],
      ['a1', 'A1'],
      ['b0', 'B0'],
    ]);
  });
  it('are never made of samples without a key', () => {
    expect(paired([sample(null, 0, 'x')], [sample(null, 0, 'y')])[0]?.baseline).toBeUndefined();
  });
});
