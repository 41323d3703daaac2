import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { render, screen } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { type ReactNode, useState } from 'react';
import { expect, it, vi } from 'vitest';

vi.hoisted(() => {
  const others = globalThis.fetch;
  globalThis.fetch = async (input) => {
    const { pathname } = new URL((input as Request).url);
    if (!pathname.endsWith('/parse')) return others(input);
    return Response.json({ message: 'It is not YAML.' }, { status: 422 });
  };
});

import { ApiError } from '../../api/client';
import { registryQuery } from '../registry/queries';
import { found } from './Choose';
import type { Entry, Json, Path } from './entry';
import { withValue } from './entry';
import { Form } from './Form';
import { PlanCard } from './PlanCard';
import { defaultName, errorsByField, type Plan, parsedQuery } from './queries';
import type { Schema } from './schema';
import { WrittenYaml } from './Text';

const root: Schema = {
  required: ['target', 'task'],
  properties: {
    target: {
      oneOf: [
        { properties: { model: { type: 'string' }, backend: { type: 'string' } }, required: ['model'] },
        {
          properties: { endpoint: { type: 'string' }, model_name: { type: 'string' } },
          required: ['endpoint', 'model_name'],
        },
      ],
    },
    task: { type: 'string' },
    limit: { anyOf: [{ type: 'integer' }, { type: 'null' }], description: 'Maximum number of samples.' },
  },
};

function Shown({ errors = new Map(), told }: { errors?: ReadonlyMap<string, string>; told: (entry: Entry) => void }) {
  const [entry, setEntry] = useState<Entry>({});
  told(entry);
  const set = (path: Path, value: Json | undefined) => setEntry((old) => withValue(old, path, value));
  return <Form state={{ entry, errors, root, set }} setEntry={setEntry} />;
}

const client = new QueryClient({ defaultOptions: { queries: { staleTime: Number.POSITIVE_INFINITY } } });
client.setQueryData(registryQuery.queryKey, {
  items: [{ kind: 'models', name: 'tiny', version: '1.0.0', description: 'A small reader' }],
});

function show(children: ReactNode) {
  return render(
    <QueryClientProvider client={client}>
      <MantineProvider>{children}</MantineProvider>
    </QueryClientProvider>,
  );
}

function input(label: string): HTMLElement {
  return screen.getByLabelText(new RegExp(`^${label}( \\*)?$`), { selector: 'input:not([type=radio])' });
}

it('makes the entry that is typed, and keeps a limit that is no number for the API to refuse', async () => {
  let entry: Entry = {};
  show(<Shown told={(now) => (entry = now)} />);
  const user = userEvent.setup();
  await user.type(input('Model'), 'tiny');
  await user.type(input('Limit'), '20');
  expect(entry).toEqual({ target: { model: 'tiny' }, limit: 20 });
  await user.type(input('Limit'), 'x');
  expect(entry.limit).toBe('20x');
  await user.click(screen.getByRole('radio', { name: 'Endpoint' }));
  await user.type(input('Model name'), 'a/b');
  expect(entry.target).toEqual({ endpoint: '', model_name: 'a/b' });
});

it('shows each error at its field', () => {
  const error = new ApiError('2 things are wrong.', {
    status: 422,
    code: 'registry_errors',
    cure: '',
    items: [
      { field: 'target.model', message: 'there is no model called <b>x</b>.', cure: 'Did you mean tiny?' },
      { field: 'body.run.limit', message: 'too small' },
    ],
  });
  const errors = errorsByField(error);
  expect([...errors.keys()]).toEqual(['target.model', 'limit']);
  show(<Shown errors={errors} told={() => undefined} />);
  expect(input('Model').getAttribute('aria-invalid')).toBe('true');
  expect(screen.getByText('There is no model called <b>x</b>. Did you mean tiny?')).toBeTruthy();
});

it('finds entries by name first, then by description', () => {
  const about = new Map([
    ['anls', 'edit distance'],
    ['exact', 'equal text'],
    ['text-f1', ''],
  ]);
  expect(found([...about.keys()], about, 'TEXT')).toEqual(['text-f1', 'exact']);
  expect(defaultName({ target: { model: 'm' }, task: 't' })).toBe('m, t');
  expect(defaultName({ target: 'm' })).toBe('');
});

const plan = {
  name: 'n',
  warnings: ['It is private.'],
  samples: { count: 1_000_000_000_000, basis: 'limit', note: 'at most' },
  requests: [
    { kind: 'warmup', count: 2, metric: null },
    { kind: 'answers', count: null, metric: null },
  ],
  time: { expected_s: null, shortest_s: null, longest_s: null, note: 'never measured' },
  memory: {
    devices: [
      {
        target: 'm',
        worker: 'w',
        host: 'h',
        device: 0,
        device_name: 'GPU',
        memory_bytes: 8 * 2 ** 30,
        free_bytes: 8 * 2 ** 30,
        need_bytes: 9 * 2 ** 30,
        basis: 'the estimate',
        fit: 'too_small',
      },
    ],
    total: 5,
    refused: null,
    note: '',
  },
  environments: [{ of: 'the engine', kind: 'virtualenv', state: 'not built', installs: ['vllm==1'], packages: null }],
  cost: { prices: null, total: null, low: null, high: null, currency: null, note: 'no prices' },
  configuration: { task: { value: 't', origin: 'submission' }, version: { value: 1, origin: 'default' } },
} as unknown as Plan;

it('says what is known of a plan, and that it is out of date while another is made', () => {
  const query = { data: plan, error: null, isFetching: false, refetch: (() => undefined) as never };
  const { rerender } = show(<PlanCard query={query} isBegun isCurrent errors={new Map()} />);
  for (const text of ['It is private.', 'Never measured', 'too small', 'not built', 'vllm==1']) {
    expect(screen.getByText(text)).toBeTruthy();
  }
  expect(screen.getAllByText('unknown').length).toBe(1);
  expect(screen.getByText('4 more are not shown.')).toBeTruthy();
  expect(screen.getByLabelText('Plan').getAttribute('aria-busy')).toBe('false');
  rerender(
    <MantineProvider>
      <PlanCard query={query} isBegun isCurrent={false} errors={new Map()} />
    </MantineProvider>,
  );
  expect(screen.getByRole('status').textContent).toBe('is being made …');
});

it('does not take an entry for the text that is written until the API has read it', async () => {
  const valid = { target: { model: 'tiny' }, task: 't' };
  client.setQueryDefaults(['parsed'], { gcTime: Number.POSITIVE_INFINITY });
  client.setQueryData(parsedQuery('task: t').queryKey, valid);
  const entries: Entry[] = [];
  const reads: boolean[] = [];
  show(<WrittenYaml entry={{}} setEntry={(entry) => entries.push(entry)} setIsRead={(isRead) => reads.push(isRead)} />);
  expect(reads.at(-1)).toBe(true);
  const user = userEvent.setup();
  await user.type(screen.getByLabelText('YAML of the run'), 'task: t');
  expect(reads.at(-1)).toBe(false);
  await expect.poll(() => reads.at(-1), { timeout: 5000 }).toBe(true);
  expect(entries.at(-1)).toEqual(valid);
  await user.type(screen.getByLabelText('YAML of the run'), ': {{');
  expect(reads.at(-1)).toBe(false);
  expect(entries.at(-1)).toEqual(valid);
});
