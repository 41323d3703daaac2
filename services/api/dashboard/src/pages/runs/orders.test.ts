import { expect, it } from 'vitest';
import { ordersOf } from './orders';

const values = (columns: string[], chosen: string) =>
  ordersOf(
    columns.map((name) => ({ name })),
    chosen,
  ).map(({ value }) => value);

it('offers orders by columns that runs have, and always the chosen one', () => {
  expect(values(['created_at', 'name', 'duration_s'], 'name')).toEqual([
    '-created_at',
    'created_at',
    'name',
    '-duration_s',
  ]);
  expect(values([], '-cost_total')).toEqual(['-cost_total']);
  expect(ordersOf([], '-metrics.anls')).toEqual([{ value: '-metrics.anls', label: 'By -metrics.anls' }]);
});
