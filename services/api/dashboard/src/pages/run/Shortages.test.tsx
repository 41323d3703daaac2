import { render, screen, within } from '@testing-library/react';
import { expect, it } from 'vitest';
import { Shortages } from './Shortages';

const MIB = 2 ** 20;

it('has need, have and shortfall of each memory, and what would make the model fit', () => {
  const shortage = {
    model: 'big',
    has_run_out: false,
    rows: [{ memory: 'accelerator', need_bytes: 300 * MIB, have_bytes: 100 * MIB, shortfall_bytes: 200 * MIB }],
    knobs: [
      { name: 'context', to: 1024, fixes: true },
      { name: 'batch', to: null, fixes: false },
    ],
  } as unknown as Parameters<typeof Shortages>[0]['shortages'][number];
  render(<Shortages shortages={[shortage]} />);
  const card = within(screen.getByRole('region', { name: 'Memory of big' }));
  const cells = card.getAllByRole('cell').map((cell) => cell.textContent?.replace(/\s/g, ' '));
  expect(cells).toEqual(['accelerator', '300 MiB', '100 MiB', '200 MiB']);
  expect(card.getByText(/would fit it/).textContent).toContain('context: 1024');
  expect(card.getByText(/Smaller values/).textContent).toContain('batch');
});
