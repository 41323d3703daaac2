import { screen } from '@testing-library/react';
import { expect, it } from 'vitest';
import { draw, PATIENCE } from '../../test-drawing';
import { run } from '../run/route';
import { LabelsCell } from './LabelsCell';

it('leads from a tag with a comma to the runs of that tag alone', async () => {
  draw(run, () => <LabelsCell id="r" name="n" tags={['a, b']} hasNote={false} mayEdit={false} />, '/runs/r');
  const link = await screen.findByRole('link', { name: 'a, b' }, PATIENCE);
  const { searchParams } = new URL(link.getAttribute('href') ?? '', 'http://localhost');
  expect(JSON.parse(searchParams.get('where') ?? '')).toEqual(['tags=a\\, b']);
}, 180_000);
