import { screen, within } from '@testing-library/react';
import { expect, it, vi } from 'vitest';

vi.hoisted(() => {
  const columns = ['latency_p50_ms', 'metrics.anls'].map((name) => ({ name, kind: 'number', is_number: true }));
  globalThis.fetch = async (input) => {
    const { pathname } = new URL((input as Request).url);
    if (pathname.endsWith('/points')) return new Promise(() => undefined);
    if (pathname.endsWith('/axes')) return Response.json({ message: 'The axes are away.' }, { status: 422 });
    return Response.json({ columns, tags: {}, tasks: {} });
  };
});

import { draw, PATIENCE } from '../../test-drawing';
import { Figures } from './Figures';
import { experiment } from './route';

it('does not say that no run has the values before it has read them, and says what it could not read', async () => {
  draw(experiment, () => <Figures id="e" />, '/experiments/e');
  expect(await screen.findByText('The axes are away.', {}, PATIENCE)).toBeTruthy();
  const pareto = within(screen.getByLabelText('Pareto', { selector: 'section' }));
  expect(pareto.getByText('Loading points …')).toBeTruthy();
  expect(pareto.queryByText(/No run of the experiment/)).toBeNull();
}, 180_000);
