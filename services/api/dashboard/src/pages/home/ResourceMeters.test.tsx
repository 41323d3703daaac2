import { render, screen } from '@testing-library/react';
import { describe, expect, it } from 'vitest';
import { Meters } from './ResourceMeters';

describe('the meters of a run', () => {
  it('show what was measured, and leave out what was not', () => {
    render(
      <Meters resources={{ cpu_util_percent: 41.4, memory_used_bytes: 2 ** 31, accelerator_util_percent: null }} />,
    );
    expect(screen.getAllByRole('term').map((term) => term.textContent)).toEqual(['Processor', 'Machine memory']);
    expect(screen.getByText('41 %')).toBeTruthy();
  });
});
