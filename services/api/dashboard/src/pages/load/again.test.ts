import { expect, it } from 'vitest';
import type { Schemas } from '../../api/client';
import { bodyOf, DEFAULTS, formOf } from './form';

const WORKLOAD: Schemas['Workload'] = {
  scenario: 'multi_stream',
  preset: null,
  rate_per_s: null,
  arrivals: null,
  cv: null,
  burst_size: null,
  to_rate_per_s: null,
  traced: 0,
  concurrency: 8,
  requests: 50,
  duration_s: null,
  conversations: null,
  turns: null,
  think_s: null,
  prompt: null,
  prompt_tokens: 16,
  output_tokens: 32,
  images: 1,
  image_size: '64x64',
  image_reuse: 0.5,
  warmup: 2,
  baseline: 0,
  timeout_s: 300,
  seed: 3,
  extra_body: { top_k: 1, ignore_eos: true },
  api_key_secret: null,
};

it('fills the form with the values of a load, which starts the same load again', () => {
  const form = formOf({
    url: 'u',
    model: 'm',
    workload: WORKLOAD,
    slo_ms: { ttft_p99: 9 },
  } as unknown as Schemas['LoadDetail']);
  expect(form).toEqual({
    ...DEFAULTS,
    url: 'u',
    model: 'm',
    mode: 'concurrency',
    concurrency: 8,
    requests: 50,
    prompt: 16,
    output: 32,
    images: 1,
    size: '64x64',
    reuse: 0.5,
    seed: 3,
    eos: true,
    extra: '{"top_k":1}',
    ttft: 9,
  });
  expect(bodyOf(form)).toMatchObject({ scenario: 'multi_stream', concurrency: 8, requests: 50, images: 1 });
});

it('fills the form with conversations that began at a rate', () => {
  const workload = {
    ...WORKLOAD,
    scenario: 'interactive',
    rate_per_s: 0.5,
    requests: null,
    conversations: 9,
    turns: 3,
    think_s: 2,
  };
  const form = formOf({ url: 'u', model: 'm', workload, slo_ms: {} } as unknown as Schemas['LoadDetail']);
  const again = { scenario: 'interactive', rate_per_s: 0.5, conversations: 9, turns: 3, think_s: 2 };
  expect(bodyOf(form)).toMatchObject(again);
});
