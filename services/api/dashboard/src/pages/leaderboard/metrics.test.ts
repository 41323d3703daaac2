import { expect, it } from 'vitest';
import { metricsOf } from './metrics';

it('has the metrics of columns, without what describes them', () => {
  const names = ['name', 'metrics.anls', 'metrics.anls.low', 'metrics.anls.n_scored', 'metrics.note', 'metric'];
  expect(metricsOf(names.map((name) => ({ name })))).toEqual(['anls']);
});
