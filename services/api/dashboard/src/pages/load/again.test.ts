import { expect, it } from 'vitest';
import type { Schemas } from '../../api/client';
import { bodyOf, DEFAULTS, formOf } from './form';

const WORKLOAD: Schemas['Workload'] = {
  scenario: 'multi_stream',
  rate_per_s: null,
  arrivals: null,
  concurrency: 8,
  requests: 50,
  duration_s: null,
  prompt_tokens: 16,
  output_tokens: 32,
  images: 1,
  image_size: '64x64',
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
    ttft: 9,
  });
  expect(bodyOf(form)).toMatchObject({ scenario: 'multi_stream', concurrency: 8, requests: 50, images: 1 });
});
