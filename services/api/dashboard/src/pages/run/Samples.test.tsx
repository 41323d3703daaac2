import { screen } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { expect, it, vi } from 'vitest';

const asked: URL[] = vi.hoisted(() => {
  const urls: URL[] = [];
  const row = { id: '0.0', key: 'first', outcome: 'answered', text: 'yes', value: null, latency_ms: 1 };
  globalThis.fetch = async (input) => {
    const url = new URL((input as Request).url);
    urls.push(url);
    if (url.searchParams.has('cursor')) return Response.json({ message: 'The cursor is old.' }, { status: 422 });
    if (url.pathname.endsWith('/samples'))
      return Response.json({ items: [row], next: 'more', total: 2, matching: null, columns: [] });
    return Response.json(url.pathname.endsWith('/rows') ? { items: [], next: null } : []);
  };
  return urls;
});

import type { RunDetail } from '../../api/queries';
import { draw, PATIENCE } from '../../test-drawing';
import { run } from './route';
import { Samples } from './Samples';

const pages = () => asked.filter((url) => url.searchParams.has('cursor')).length;

it('asks for a page that has failed again only when the person says so', async () => {
  const detail = { id: 'r', state: 'SUCCEEDED', task: 't', done: 2 } as RunDetail;
  draw(run, () => <Samples run={detail} />, '/runs/r');
  const again = await screen.findByRole('button', { name: 'Try again' }, PATIENCE);
  expect(pages()).toBe(1);
  await userEvent.setup().click(again);
  await expect.poll(pages, PATIENCE).toBe(2);
  await screen.findByRole('button', { name: 'Try again' }, PATIENCE);
  expect(pages()).toBe(2);
}, 180_000);
