/** The form of a load: its values are in the address, so that a copied address fills it the same way. Pure. */
import type { Schemas } from '../../api/client';

export type LoadCreate = Schemas['LoadCreate'];
export type LoadSweep = Schemas['LoadSweep'];
export type LoadRepeats = Schemas['LoadRepeats'];
export type Traced = Schemas['TracedRequest'];
export type Preset = 'quick' | 'official' | 'vlm';

const MODES = ['rate', 'concurrency', 'batch', 'talks', 'trace'] as const;
export const ARRIVALS = ['poisson', 'constant', 'gamma', 'burst', 'ramp'] as const;
const COMMANDS = ['', 'search', 'precision', 'against'] as const;
const PRESETS = ['', 'quick', 'official', 'vlm'] as const;

export interface Form {
  url: string;
  model: string;
  preset: '' | Preset;
  mode: (typeof MODES)[number];
  rate: number;
  arrivals: (typeof ARRIVALS)[number];
  cv: number;
  burst: number;
  to: number;
  speed: number;
  concurrency: number;
  requests: number;
  duration: number;
  conversations: number;
  turns: number;
  think: number;
  /** Whether conversations begin at a rate, not a number at a time. */
  arriving: boolean;
  /** Values of a sweep of the rate or of the requests in flight, separated by commas. */
  sweep: string;
  text: string;
  prompt: number;
  output: number;
  images: number;
  size: string;
  reuse: number;
  ttft: number;
  tpot: number;
  latency: number;
  warmup: number;
  baseline: number;
  timeout: number;
  /** How often the load is measured, each time with another seed. */
  repeats: number;
  seed: number;
  eos: boolean;
  extra: string;
  key: string;
  /** What the shown command does instead of one measurement; only the command line can. */
  command: (typeof COMMANDS)[number];
  /** Half of the interval that `--until-precision` repeats for, in percent of the mean. */
  precision: number;
  /** URL of the second server. */
  against: string;
}

export const DEFAULTS: Form = {
  url: '',
  model: '',
  preset: '',
  mode: 'rate',
  rate: 2,
  arrivals: 'poisson',
  cv: 2,
  burst: 8,
  to: 10,
  speed: 1,
  concurrency: 4,
  requests: 100,
  duration: 30,
  conversations: 20,
  turns: 4,
  think: 1,
  arriving: false,
  sweep: '',
  text: '',
  prompt: 128,
  output: 64,
  images: 0,
  size: '512x512',
  reuse: 0,
  ttft: 0,
  tpot: 0,
  latency: 0,
  warmup: 2,
  baseline: 0,
  timeout: 300,
  repeats: 1,
  seed: 0,
  eos: false,
  extra: '',
  key: '',
  command: '',
  precision: 2,
  against: '',
};

const CHOICES: Partial<Record<keyof Form, readonly string[]>> = {
  mode: MODES,
  arrivals: ARRIVALS,
  preset: PRESETS,
  command: COMMANDS,
};

/** Read what an address has of the form; what is not of the right type or equals the default is left out. */
export function readForm(search: Record<string, unknown>): Partial<Form> {
  const read: Record<string, unknown> = {};
  for (const [name, known] of Object.entries(DEFAULTS)) {
    const given = search[name];
    if (typeof known === 'number') {
      const number = typeof given === 'string' && given !== '' ? Number(given) : given;
      if (typeof number === 'number' && Number.isFinite(number) && number >= 0) read[name] = number;
    } else if (typeof known === 'boolean') read[name] = given === true || given === 'true';
    else if (given !== undefined && given !== null && given !== '') {
      const choices = CHOICES[name as keyof Form];
      if (choices === undefined || choices.includes(String(given))) read[name] = String(given);
    }
  }
  return differing({ ...DEFAULTS, ...read } as Form);
}

/** The values that differ from the defaults. */
export function differing(form: Form): Partial<Form> {
  return Object.fromEntries(Object.entries(form).filter(([name, value]) => DEFAULTS[name as keyof Form] !== value));
}

/** The form that started a load; the requests of a trace are not in it. */
export function formOf(load: Schemas['LoadDetail']): Form {
  const { workload } = load;
  const { ignore_eos, ...extra } = workload.extra_body;
  return {
    ...DEFAULTS,
    url: load.url,
    model: load.model,
    preset: workload.preset ?? '',
    mode: workload.traced > 0 ? 'trace' : modeOf(workload.scenario),
    rate: workload.rate_per_s ?? DEFAULTS.rate,
    arrivals: ARRIVALS.find((name) => name === workload.arrivals) ?? DEFAULTS.arrivals,
    cv: workload.cv ?? DEFAULTS.cv,
    burst: workload.burst_size ?? DEFAULTS.burst,
    to: workload.to_rate_per_s ?? DEFAULTS.to,
    concurrency: workload.concurrency,
    requests: workload.requests ?? DEFAULTS.requests,
    duration: workload.duration_s ?? DEFAULTS.duration,
    conversations: workload.conversations ?? DEFAULTS.conversations,
    turns: workload.turns ?? DEFAULTS.turns,
    think: workload.think_s ?? DEFAULTS.think,
    arriving: workload.scenario === 'interactive' && workload.rate_per_s !== null,
    text: workload.prompt ?? '',
    prompt: workload.prompt_tokens ?? DEFAULTS.prompt,
    output: workload.output_tokens,
    images: workload.images,
    size: workload.image_size ?? DEFAULTS.size,
    reuse: workload.image_reuse,
    ttft: load.slo_ms.ttft_p99 ?? 0,
    tpot: load.slo_ms.tpot_p99 ?? 0,
    latency: load.slo_ms.latency_p99 ?? 0,
    warmup: workload.warmup,
    baseline: workload.baseline,
    timeout: workload.timeout_s,
    seed: workload.seed,
    eos: ignore_eos === true,
    extra: Object.keys(extra).length > 0 ? JSON.stringify(extra) : '',
    key: workload.api_key_secret ?? '',
  };
}

function modeOf(scenario: string): Form['mode'] {
  if (scenario === 'server') return 'rate';
  if (scenario === 'offline') return 'batch';
  return scenario === 'interactive' ? 'talks' : 'concurrency';
}

/** What is missing or cannot be before a load can be started. */
export function missing(form: Form, trace: readonly Traced[]): string | undefined {
  if (form.url.trim() === '') return 'Give the URL of the endpoint.';
  if (form.model.trim() === '') return 'Give the model by the name that the endpoint has for it.';
  if (form.mode === 'trace' && trace.length === 0) return 'Choose the file of the trace.';
  if (form.extra.trim() !== '' && fieldsOf(form.extra) === undefined) return 'The further fields are no JSON object.';
  if (form.sweep.trim() !== '' && (sweepOf(form)?.length ?? 0) < 2)
    return 'A sweep has two or more numbers, separated by commas.';
  const lacks = [
    ['ttft', 'TTFT'],
    ['tpot', 'TPOT'],
  ].filter(([name]) => form[name as 'ttft' | 'tpot'] === 0);
  if (form.preset === 'official' && isAtRate(form) && lacks.length > 0)
    return `The preset official needs a limit of ${lacks.map(([, name]) => `${name} p99`).join(' and of ')}.`;
  return undefined;
}

function fieldsOf(text: string): Record<string, unknown> | undefined {
  try {
    const read: unknown = JSON.parse(text);
    return typeof read === 'object' && read !== null && !Array.isArray(read)
      ? (read as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** The limits that are given, in milliseconds. */
export function limitsOf({ ttft, tpot, latency }: Form): [string, number][] {
  const limits: [string, number][] = [
    ['ttft_p99', ttft],
    ['tpot_p99', tpot],
    ['latency_p99', latency],
  ];
  return limits.filter(([, limit]) => limit > 0);
}

/** Whether requests or conversations arrive at a rate, whether or not earlier ones are answered. */
export function isAtRate({ mode, arriving }: Form): boolean {
  return mode === 'rate' || (mode === 'talks' && arriving);
}

/** Whether a preset sets duration, arrivals and number of requests, so that the form does not ask for them. */
export function isByRule({ preset, mode }: Form): boolean {
  return preset !== '' && mode !== 'trace';
}

const SAMPLES_PER_QUERY = 8;

/** The fewest requests of a closed loop by the rules of its preset. */
export function leastOf({ preset, mode, concurrency }: Form): number {
  if (preset === '' || preset === 'quick') return 1;
  if (mode === 'batch') return 24_576;
  return concurrency === 1 ? 64 : 662 * SAMPLES_PER_QUERY;
}

/** The form with a preset: conversations then arrive at a rate, and streams are one, or the eight of a query. */
export function withPreset(form: Form, preset: Form['preset']): Form {
  if (preset === '') return { ...form, preset, requests: Math.min(form.requests, DEFAULTS.requests) };
  const mode = form.mode === 'trace' ? 'rate' : form.mode;
  const isByQueries = mode === 'concurrency' && preset !== 'quick' && form.concurrency > 1;
  const chosen: Form = {
    ...form,
    preset,
    mode,
    arriving: mode === 'talks' || form.arriving,
    concurrency: isByQueries ? SAMPLES_PER_QUERY : form.concurrency,
    arrivals: 'poisson',
    sweep: isByQueries ? '' : form.sweep,
  };
  return { ...chosen, requests: Math.max(chosen.requests, leastOf(chosen)) };
}

/** The scenario that the form describes. */
export function scenarioOf({ mode, concurrency, sweep }: Form): NonNullable<LoadCreate['scenario']> {
  if (mode === 'batch') return 'offline';
  if (mode === 'talks') return 'interactive';
  if (mode !== 'concurrency') return 'server';
  return concurrency === 1 && sweep.trim() === '' ? 'single_stream' : 'multi_stream';
}

/** The body that starts the load. */
export function bodyOf(form: Form, trace: readonly Traced[] = []): LoadCreate {
  const limits = limitsOf(form);
  const scenario = scenarioOf(form);
  const extra = fieldsOf(form.extra) ?? {};
  const isOfVlm = form.preset === 'vlm';
  return {
    url: form.url.trim(),
    model: form.model.trim(),
    scenario,
    ...(isByRule(form) && { preset: form.preset as Preset }),
    ...(form.mode === 'trace' && { trace: [...trace], ...(form.speed !== 1 && { speed: form.speed }) }),
    ...(isAtRate(form) && { rate_per_s: form.rate, ...(!isByRule(form) && arrivalsOf(form)) }),
    ...(form.mode === 'rate' && !isByRule(form) && { duration_s: form.duration }),
    ...(form.mode === 'talks' && {
      turns: form.turns,
      think_s: form.think,
      ...(!isByRule(form) && { conversations: form.conversations }),
      ...(!form.arriving && { concurrency: form.concurrency }),
    }),
    ...((form.mode === 'concurrency' || form.mode === 'batch') && {
      concurrency: form.concurrency,
      requests: form.requests,
    }),
    ...(form.text.trim()
      ? { prompt: form.text }
      : !(isOfVlm && form.prompt === DEFAULTS.prompt) && { prompt_tokens: form.prompt }),
    output_tokens: form.output,
    ...(form.images > 0 && {
      images: form.images,
      image_size: form.size,
      ...(form.reuse > 0 && { image_reuse: form.reuse }),
    }),
    ...(limits.length > 0 && { slo: { limits_ms: Object.fromEntries(limits) } }),
    ...(form.warmup !== DEFAULTS.warmup && { warmup: form.warmup }),
    ...(form.baseline > 0 && scenario === 'multi_stream' && { baseline: form.baseline }),
    ...(form.timeout !== DEFAULTS.timeout && { timeout_s: form.timeout }),
    ...(form.seed !== 0 && { seed: form.seed }),
    ...(form.eos && { ignore_eos: true }),
    ...(Object.keys(extra).length > 0 && { extra_body: extra as LoadCreate['extra_body'] }),
    ...(form.key.trim() && { api_key_secret: form.key.trim() }),
  } as LoadCreate;
}

function arrivalsOf({ arrivals, cv, burst, to }: Form) {
  return {
    arrivals,
    ...(arrivals === 'gamma' && { cv }),
    ...(arrivals === 'burst' && { burst_size: burst }),
    ...(arrivals === 'ramp' && { to_rate_per_s: to }),
  };
}

/** The values of the sweep; none without one, undefined where they are no numbers. */
function sweepOf(form: Form): number[] | undefined {
  const values = form.sweep
    .split(/[\s,;]+/)
    .filter(Boolean)
    .map(Number);
  return values.every((value) => Number.isFinite(value) && value > 0) ? values : undefined;
}

/** The body that starts a sweep; undefined where the form has none. */
export function sweepBodyOf(form: Form): LoadSweep | undefined {
  const values = sweepOf(form);
  if (form.mode === 'trace' || form.sweep.trim() === '' || values === undefined) return undefined;
  return { load: bodyOf(form), axis: isAtRate(form) ? 'rate' : 'concurrency', values };
}

/** The body that starts repeats; undefined for one measurement. A sweep measures each of its values once. */
export function repeatsBodyOf(form: Form, trace: readonly Traced[] = []): LoadRepeats | undefined {
  if (form.repeats < 2 || form.sweep.trim() !== '') return undefined;
  return { load: bodyOf(form, trace), repeats: form.repeats };
}

/** Requests of a trace, from a file with one JSON object in each line; throws what is wrong with which line. */
export function readTrace(text: string): Traced[] {
  return text.split('\n').flatMap((line, no) => {
    if (line.trim() === '') return [];
    const read = fieldsOf(line);
    if (typeof read?.timestamp_s !== 'number')
      throw new Error(
        `Line ${no + 1} is no object with a number timestamp_s: {"timestamp_s": 1.5, "prompt_tokens": 100}`,
      );
    const tokens = (name: 'prompt_tokens' | 'output_tokens') =>
      typeof read[name] === 'number' ? { [name]: read[name] as number } : {};
    return [{ timestamp_s: read.timestamp_s, ...tokens('prompt_tokens'), ...tokens('output_tokens') }];
  });
}
