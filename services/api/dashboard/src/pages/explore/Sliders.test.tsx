import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { render, screen } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { useState } from 'react';
import { expect, it } from 'vitest';
import { pointsQuery } from '../../api/listing';
import { newQueries } from '../../app/queries';
import { boundsOf } from './axes';
import { Sliders } from './Sliders';

const SPEED = 'output_tokens_per_s';

it('keeps the focus while its bound is moved by keys, and follows a bound that is removed elsewhere', async () => {
  const queries = newQueries();
  const point = { target: 'm', task: 't', is_best: false };
  const points = [0, 200].map((value) => ({ ...point, id: `${value}`, name: `${value}`, values: [value] }));
  queries.setQueryData(pointsQuery({ columns: [SPEED], where: ['state=SUCCEEDED'], q: 'nightly' }).queryKey, {
    columns: [SPEED],
    points,
  } as never);
  const told: string[][] = [];
  function Shown() {
    const [where, setWhere] = useState<readonly string[]>(['state=SUCCEEDED']);
    return (
      <MantineProvider>
        <Sliders
          names={[SPEED]}
          bounds={[SPEED]}
          where={where}
          q="nightly"
          change={(_, changed) => {
            told.push(changed);
            setWhere(changed);
          }}
        />
        <button type="button" onClick={() => setWhere(['state=SUCCEEDED'])}>
          Remove
        </button>
      </MantineProvider>
    );
  }
  render(
    <QueryClientProvider client={queries}>
      <Shown />
    </QueryClientProvider>,
  );
  const thumb = screen.getByLabelText(/^Lower bound/);
  const user = userEvent.setup();
  thumb.focus();
  for (let steps = 0; steps < 3; steps++) await user.keyboard('{ArrowRight}');
  expect(document.activeElement).toBe(thumb);
  expect(boundsOf(SPEED, told.at(-1) ?? [])).toEqual({ low: 3, high: null });
  await user.click(screen.getByText('Remove'));
  expect(thumb.getAttribute('aria-valuenow')).toBe('0');
}, 60_000);
