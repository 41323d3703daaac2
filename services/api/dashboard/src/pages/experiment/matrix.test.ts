import { describe, expect, it } from 'vitest';
import type { Run } from '../../api/queries';
import { matrixOf, metricsOf, shadeOf } from './matrix';

function run(id: string, target: string, task: string, metrics: string[]): Run {
  return { id, target, task, headline: { scores: metrics.map((metric) => ({ metric, n: 1, value: 1 })) } } as Run;
}

describe('the matrix of an experiment', () => {
  it('has a cell for every target and task, also where no run is', () => {
    const matrix = matrixOf([
      run('1', 'b', 't', []),
      run('2', 'a', 't', []),
      run('3', 'a', 's', []),
      run('4', 'a', 's', []),
    ]);
    expect([matrix.targets, matrix.tasks]).toEqual([
      ['a', 'b'],
      ['s', 't'],
    ]);
    expect(matrix.at('a', 's').map(({ id }) => id)).toEqual(['3', '4']);
    expect(matrix.at('b', 's')).toEqual([]);
  });
  it('lists primary metrics first', () => {
    expect(metricsOf([run('1', 'a', 't', ['anls', 'cer']), run('2', 'a', 's', ['teds', 'anls'])])).toEqual([
      'anls',
      'teds',
      'cer',
    ]);
  });
});

describe('the shade of a value', () => {
  it('is none beyond the scale from 0 to 1, and without a value', () => {
    expect([0, 0.25, 1, 1.5, -0.1, null].map(shadeOf)).toEqual([0, 0.25, 1, null, null, null]);
  });
});
