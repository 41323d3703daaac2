import { expect, it } from 'vitest';
import { bodyOf, commandOf, DEFAULTS, differing, missing, readForm, withPreset } from './form';

const FILLED = { ...DEFAULTS, url: 'http://localhost:8000/v1', model: 'm' };

it('has in the address only what differs from the defaults', () => {
  expect(differing(FILLED)).toEqual({ url: FILLED.url, model: 'm' });
  expect(readForm({ rate: '5', model: 7, mode: 'sideways', requests: 'many', size: DEFAULTS.size })).toEqual({
    rate: 5,
    model: '7',
  });
});

it('asks at a rate for a duration, and with requests in flight for a number of them', () => {
  expect(bodyOf(FILLED)).toMatchObject({ scenario: 'server', rate_per_s: 2, duration_s: 30 });
  expect(bodyOf(FILLED)).not.toHaveProperty('requests');
  const closed = bodyOf({ ...FILLED, mode: 'concurrency' });
  expect(closed).toMatchObject({ scenario: 'multi_stream', concurrency: 4, requests: 100 });
  expect(closed).not.toHaveProperty('rate_per_s');
  expect(bodyOf({ ...FILLED, mode: 'concurrency', concurrency: 1 }).scenario).toBe('single_stream');
});

it('leaves out images, limits and a key that are not asked for', () => {
  expect(Object.keys(bodyOf(FILLED))).not.toEqual(expect.arrayContaining(['images']));
  expect(bodyOf({ ...FILLED, images: 2, ttft: 500, key: 'lab' })).toMatchObject({
    images: 2,
    image_size: '512x512',
    slo: { limits_ms: { ttft_p99: 500 } },
    api_key_secret: 'lab',
  });
});

it('shows the command that makes the same load', () => {
  expect(commandOf({ ...FILLED, model: "a'b", ttft: 500 })).toBe(
    "vlmhyperbench load http://localhost:8000/v1 --model 'a'\\''b' --scenario server --rate 2 --arrivals poisson" +
      " --duration 30 --prompt-tokens 128 --output-tokens 64 --slo 'ttft_p99<500ms'",
  );
});

it('says what is missing', () => {
  expect(missing(DEFAULTS)).toMatch(/URL/);
  expect(missing({ ...DEFAULTS, url: 'x' })).toMatch(/model/);
  expect(missing(FILLED)).toBeUndefined();
});

it('fills duration, arrivals, images and limits by a preset', () => {
  expect(differing(withPreset(DEFAULTS, 'quick'))).toEqual({ duration: 10 });
  expect(differing(withPreset({ ...DEFAULTS, duration: 900 }, 'official'))).toEqual({ duration: 900 });
  const vlm = withPreset({ ...FILLED, mode: 'concurrency', arrivals: 'constant' }, 'vlm');
  expect(bodyOf(vlm)).toMatchObject({
    scenario: 'server',
    arrivals: 'poisson',
    duration_s: 600,
    images: 1,
    slo: { limits_ms: { latency_p99: 12_000 } },
  });
  expect(commandOf(vlm)).toContain("--slo 'latency_p99<12000ms'");
});
