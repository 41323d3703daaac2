import { MantineProvider } from '@mantine/core';
import { render, screen } from '@testing-library/react';
import { describe, expect, it } from 'vitest';
import { Checks } from './HealthPage';

describe('the checks', () => {
  it('show what failed first, with its cure, and hide the cure of what passed', () => {
    const checks = [
      { name: 'database', is_ok: true, detail: 'answers', cure: 'no use' },
      { name: 'disk', is_ok: false, detail: '1 GiB free', cure: 'Free some `space`.' },
    ];
    const at = '2026-01-01T00:00:00Z';
    render(
      <MantineProvider>
        <Checks diagnosis={{ version: '0.1.0', is_ok: false, checked_at: at, checks }} />
      </MantineProvider>,
    );
    expect(screen.getByText('✕ 1 of 2 checks failed')).toBeTruthy();
    expect(screen.getAllByRole('heading').map((heading) => heading.textContent)).toEqual(['Failed', 'Passed']);
    expect(screen.getByText('space').tagName).toBe('CODE');
    expect(screen.queryByText('no use')).toBeNull();
  });
});
