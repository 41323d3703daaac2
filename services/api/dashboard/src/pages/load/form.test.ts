import { expect, it } from 'vitest';
import { commandLacks, commandOf } from './command';
import {
  bodyOf,
  DEFAULTS,
  differing,
  missing,
  readForm,
  readTrace,
  repeatsBodyOf,
  sweepBodyOf,
  withPreset,
} from './form';

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
  expect(missing(DEFAULTS, [])).toMatch(/URL/);
  expect(missing({ ...DEFAULTS, url: 'x' }, [])).toMatch(/model/);
  expect(missing({ ...FILLED, mode: 'trace' }, [])).toMatch(/trace/);
  expect(missing({ ...FILLED, extra: '[1]' }, [])).toMatch(/JSON object/);
  expect(missing({ ...FILLED, sweep: '1, x' }, [])).toMatch(/numbers/);
  expect(missing({ ...FILLED, preset: 'official', ttft: 9 }, [])).toMatch(/TPOT p99/);
  expect(missing(FILLED, [])).toBeUndefined();
});

it('leaves to the API what a preset sets', () => {
  const official = withPreset({ ...FILLED, arrivals: 'burst', ttft: 9, tpot: 5 }, 'official');
  expect(bodyOf(official)).toMatchObject({ preset: 'official', rate_per_s: 2, slo: { limits_ms: { ttft_p99: 9 } } });
  for (const name of ['duration_s', 'requests', 'arrivals']) expect(bodyOf(official)).not.toHaveProperty(name);
  const vlm = bodyOf(withPreset(FILLED, 'vlm'));
  for (const name of ['images', 'prompt_tokens', 'slo']) expect(vlm).not.toHaveProperty(name);
  const alone = withPreset({ ...FILLED, mode: 'concurrency', concurrency: 1 }, 'official');
  expect(bodyOf(alone)).toMatchObject({ scenario: 'single_stream', preset: 'official', requests: 100 });
  expect(commandOf(alone)).toContain('--scenario single_stream --preset official --prompt-tokens 128');
});

it('has streams, requests and conversations as the rules of a preset ask for', () => {
  const queries = bodyOf(withPreset({ ...FILLED, mode: 'concurrency' }, 'official'));
  expect(queries).toMatchObject({ scenario: 'multi_stream', concurrency: 8, requests: 5296 });
  const batch = bodyOf(withPreset({ ...FILLED, mode: 'batch', concurrency: 16 }, 'official'));
  expect(batch).toMatchObject({ scenario: 'offline', concurrency: 16, requests: 24_576 });
  const talks = withPreset({ ...FILLED, mode: 'talks' }, 'official');
  expect(bodyOf(talks)).toMatchObject({ scenario: 'interactive', rate_per_s: 2, turns: 4, think_s: 1 });
  for (const name of ['conversations', 'concurrency', 'arrivals']) expect(bodyOf(talks)).not.toHaveProperty(name);
});

it('holds conversations a number at a time, or lets them arrive', () => {
  const talks = { ...FILLED, mode: 'talks' as const, turns: 3 };
  expect(bodyOf(talks)).toMatchObject({ scenario: 'interactive', concurrency: 4, conversations: 20, turns: 3 });
  expect(bodyOf(talks)).not.toHaveProperty('rate_per_s');
  expect(sweepBodyOf({ ...talks, sweep: '1,2' })?.axis).toBe('concurrency');
  expect(sweepBodyOf({ ...talks, arriving: true, sweep: '1,2' })?.axis).toBe('rate');
  expect(commandOf(talks)).toContain('--scenario interactive --concurrency 4 --conversations 20 --turns 3 --think 1');
});

it('sweeps the rate or the requests in flight', () => {
  expect(sweepBodyOf(FILLED)).toBeUndefined();
  expect(sweepBodyOf({ ...FILLED, sweep: '1, 2 ,4' })).toMatchObject({ axis: 'rate', values: [1, 2, 4] });
  const swept = { ...FILLED, mode: 'concurrency' as const, concurrency: 1, sweep: '1,2' };
  expect(sweepBodyOf(swept)).toMatchObject({ axis: 'concurrency', load: { scenario: 'multi_stream' } });
  expect(commandOf(swept)).toContain('--sweep concurrency=1,2 --requests 100');
  expect(sweepBodyOf({ ...FILLED, sweep: '1,two' })).toBeUndefined();
});

it('repeats a load with other seeds, but no sweep', () => {
  expect(repeatsBodyOf(FILLED)).toBeUndefined();
  expect(repeatsBodyOf({ ...FILLED, repeats: 3 })).toMatchObject({ repeats: 3, load: { scenario: 'server' } });
  expect(repeatsBodyOf({ ...FILLED, repeats: 3, sweep: '1,2' })).toBeUndefined();
  expect(commandOf({ ...FILLED, repeats: 3 })).toContain('--repeats 3');
});

it('reads a trace, and says which line is wrong', () => {
  expect(readTrace('{"timestamp_s": 0, "prompt_tokens": 3}\n\n{"timestamp_s": 1.5}\n')).toEqual([
    { timestamp_s: 0, prompt_tokens: 3 },
    { timestamp_s: 1.5 },
  ]);
  expect(() => readTrace('{"timestamp_s": 0}\nnothing')).toThrow(/Line 2/);
  const body = bodyOf({ ...FILLED, mode: 'trace', speed: 2 }, [{ timestamp_s: 0 }]);
  expect(body).toMatchObject({ scenario: 'server', trace: [{ timestamp_s: 0 }], speed: 2 });
  expect(body).not.toHaveProperty('rate_per_s');
});

it('has the parameter of an arrival process and of a closed loop only where they have an effect', () => {
  expect(bodyOf({ ...FILLED, arrivals: 'burst', burst: 5 })).toMatchObject({ arrivals: 'burst', burst_size: 5 });
  expect(bodyOf({ ...FILLED, burst: 5 })).not.toHaveProperty('burst_size');
  expect(bodyOf({ ...FILLED, baseline: 9 })).not.toHaveProperty('baseline');
  expect(commandOf({ ...FILLED, arrivals: 'ramp', to: 9, eos: true })).toContain('--arrivals ramp --to-rate 9');
});

it('shows what only the command line can do: a search, repeats until precise, two servers', () => {
  const searched = { ...FILLED, command: 'search' as const, mode: 'concurrency' as const, preset: 'quick' as const };
  expect(commandLacks(searched)).toMatch(/limit/);
  const search = { ...searched, ttft: 500, sweep: '1,2', repeats: 3, arrivals: 'ramp' as const };
  expect(commandLacks(search)).toBeUndefined();
  expect(commandOf(search)).toBe(
    'vlmhyperbench load http://localhost:8000/v1 --model m --scenario server --arrivals poisson' +
      " --prompt-tokens 128 --output-tokens 64 --slo 'ttft_p99<500ms' --search-rate",
  );
  const precise = { ...FILLED, command: 'precision' as const, precision: 5, repeats: 10, sweep: '1,2' };
  expect(commandOf(precise)).toContain('--rate 2 --arrivals poisson --duration 30');
  expect(commandOf(precise)).toContain('--until-precision 5% --repeats 10');
  expect(commandOf(precise)).not.toContain('--sweep');
  expect(commandLacks({ ...precise, precision: 0 })).toMatch(/precision/);
  const paired = { ...FILLED, command: 'against' as const };
  expect(commandLacks(paired)).toMatch(/second/);
  expect(commandOf({ ...paired, against: 'http://b/v1' })).toContain('--against http://b/v1');
});

it('names the variable with the key of an endpoint that needs one', () => {
  expect(commandOf({ ...FILLED, key: 'lab' })).toContain('--model m --api-key-env API_KEY --scenario');
});

it('starts what the button says, whatever the command shows', () => {
  expect(bodyOf({ ...FILLED, command: 'against', against: 'http://b/v1' })).toEqual(bodyOf(FILLED));
});
