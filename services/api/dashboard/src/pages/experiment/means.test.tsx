import { MantineProvider } from '@mantine/core';
import { render, screen } from '@testing-library/react';
import { expect, it } from 'vitest';
import { areRepeats, MeansTable } from './Means';

it('shows each mean with its interval, and why there is none', () => {
  const value = { n: 2, mean: 12.5, sd: 0.5, low: 8, high: 17, reason: null };
  const none = { n: 1, mean: null, sd: null, low: null, high: null, reason: '1 of 2 repeats have no value' };
  render(
    <MantineProvider>
      <MeansTable
        means={{ repeats: 3, ended: 2, valid: false, metrics: { ttft_p99: value, output_tokens_per_s: none } }}
      />
    </MantineProvider>,
  );
  const [ttft, output] = ['TTFT p99', 'Output'].map(
    (name) => screen.getByRole('rowheader', { name }).closest('tr')?.textContent,
  );
  expect(ttft).toMatch(/12.5.*8.*17/);
  expect(output).toContain('1 of 2 repeats have no value');
  expect(screen.getByText(/did not hold/)).toBeTruthy();
});

it('are those of loads that differ in their seed alone', () => {
  const run = { task: 'load' };
  const seeds = [{ column: 'spec.dataset.seed' }, { column: 'spec.scenario.seed' }];
  const runs = (...given: object[]) => given as unknown as Parameters<typeof areRepeats>[0];
  expect(areRepeats(runs(run, run), seeds)).toBe(true);
  expect(areRepeats(runs(run, run), [...seeds, { column: 'spec.scenario.in_flight' }])).toBe(false);
  expect(areRepeats(runs(run, { task: 'qa' }), seeds)).toBe(false);
  expect(areRepeats(runs(run), seeds)).toBe(false);
});
