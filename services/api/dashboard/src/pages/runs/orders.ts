/** The orders that a list of runs is offered in. */

const ORDERS: readonly (readonly [string, string])[] = [
  ['-created_at', 'Newest first'],
  ['created_at', 'Oldest first'],
  ['name', 'By name'],
  ['target', 'By target'],
  ['latency_p50_ms', 'Fastest p50 first'],
  ['latency_p99_ms', 'Fastest p99 first'],
  ['-output_tokens_per_s', 'Most output first'],
  ['peak_memory_bytes', 'Least memory first'],
  ['-duration_s', 'Longest first'],
  ['-cost_total', 'Dearest first'],
];

/** Options of the orders by columns that runs have, and of the order that is chosen. */
export function ordersOf(columns: readonly { name: string }[], chosen: string): { value: string; label: string }[] {
  const names = new Set(columns.map(({ name }) => name));
  const offered = ORDERS.filter(([order]) => order === chosen || names.has(order.replace(/^-/, '')));
  const others = offered.some(([order]) => order === chosen) ? [] : [[chosen, `By ${chosen}`] as const];
  return [...offered, ...others].map(([value, label]) => ({ value, label }));
}
