/** The form of a load: its values are in the address, so that a copied address fills it the same way. Pure. */
import type { Schemas } from '../../api/client';

export type LoadCreate = Schemas['LoadCreate'];
export type Mode = 'rate' | 'concurrency';

export interface Form {
  url: string;
  model: string;
  mode: Mode;
  rate: number;
  arrivals: 'poisson' | 'constant';
  concurrency: number;
  requests: number;
  duration: number;
  prompt: number;
  output: number;
  images: number;
  size: string;
  ttft: number;
  tpot: number;
  latency: number;
  key: string;
}

export const DEFAULTS: Form = {
  url: '',
  model: '',
  mode: 'rate',
  rate: 2,
  arrivals: 'poisson',
  concurrency: 4,
  requests: 100,
  duration: 30,
  prompt: 128,
  output: 64,
  images: 0,
  size: '512x512',
  ttft: 0,
  tpot: 0,
  latency: 0,
  key: '',
};

/** Read what an address has of the form; what is not of the right type or equals the default is left out. */
export function readForm(search: Record<string, unknown>): Partial<Form> {
  const read: Record<string, unknown> = {};
  for (const [name, known] of Object.entries(DEFAULTS)) {
    const given = search[name];
    if (typeof known === 'number') {
      const number = typeof given === 'string' && given !== '' ? Number(given) : given;
      if (typeof number === 'number' && Number.isFinite(number) && number >= 0) read[name] = number;
    } else if (given !== undefined && given !== null && given !== '') read[name] = String(given);
  }
  if (read.mode !== 'rate' && read.mode !== 'concurrency') delete read.mode;
  if (read.arrivals !== 'poisson' && read.arrivals !== 'constant') delete read.arrivals;
  return differing({ ...DEFAULTS, ...read } as Form);
}

/** The values that differ from the defaults. */
export function differing(form: Form): Partial<Form> {
  return Object.fromEntries(Object.entries(form).filter(([name, value]) => DEFAULTS[name as keyof Form] !== value));
}

/** The form that started a load. */
export function formOf(load: Schemas['LoadDetail']): Form {
  const { workload } = load;
  return {
    ...DEFAULTS,
    url: load.url,
    model: load.model,
    mode: workload.rate_per_s === null ? 'concurrency' : 'rate',
    rate: workload.rate_per_s ?? DEFAULTS.rate,
    arrivals: workload.arrivals === 'constant' ? 'constant' : 'poisson',
    concurrency: workload.concurrency,
    requests: workload.requests ?? DEFAULTS.requests,
    duration: workload.duration_s ?? DEFAULTS.duration,
    prompt: workload.prompt_tokens ?? DEFAULTS.prompt,
    output: workload.output_tokens,
    images: workload.images,
    size: workload.image_size ?? DEFAULTS.size,
    ttft: load.slo_ms.ttft_p99 ?? 0,
    tpot: load.slo_ms.tpot_p99 ?? 0,
    latency: load.slo_ms.latency_p99 ?? 0,
    key: workload.api_key_secret ?? '',
  };
}

/** What is missing before a load can be started. */
export function missing(form: Form): string | undefined {
  if (form.url.trim() === '') return 'Give the URL of the endpoint.';
  if (form.model.trim() === '') return 'Give the model by the name that the endpoint has for it.';
  return undefined;
}

/** The limits that are given, in milliseconds. */
function limitsOf({ ttft, tpot, latency }: Form): [string, number][] {
  const limits: [string, number][] = [
    ['ttft_p99', ttft],
    ['tpot_p99', tpot],
    ['latency_p99', latency],
  ];
  return limits.filter(([, limit]) => limit > 0);
}

export type Preset = 'quick' | 'official' | 'vlm';

/**
 * Duration, arrivals, content and limits by the rules of `vlmhyperbench load --preset`. The command alone adds requests
 * until the percentiles are certified.
 */
export function withPreset(form: Form, preset: Preset): Form {
  const seconds = preset === 'quick' ? 10 : 600;
  const timed: Form = { ...form, mode: 'rate', duration: Math.max(seconds, preset === 'quick' ? 0 : form.duration) };
  if (preset === 'quick') return { ...timed, duration: seconds };
  if (preset === 'official') return { ...timed, arrivals: 'poisson' };
  return { ...timed, arrivals: 'poisson', prompt: 256, images: 1, size: '768x768', latency: 12_000 };
}

/** The body that starts the load. */
export function bodyOf(form: Form): LoadCreate {
  const isRate = form.mode === 'rate';
  const limits = limitsOf(form);
  const scenario = isRate ? 'server' : form.concurrency === 1 ? 'single_stream' : 'multi_stream';
  return {
    url: form.url.trim(),
    model: form.model.trim(),
    scenario,
    ...(isRate
      ? { rate_per_s: form.rate, arrivals: form.arrivals, duration_s: form.duration }
      : { requests: form.requests, concurrency: form.concurrency }),
    prompt_tokens: form.prompt,
    output_tokens: form.output,
    ...(form.images > 0 && { images: form.images, image_size: form.size }),
    ...(limits.length > 0 && { slo: { limits_ms: Object.fromEntries(limits) } }),
    ...(form.key.trim() && { api_key_secret: form.key.trim() }),
  };
}

/** The command that makes the same load from this machine, without a stack. */
export function commandOf(form: Form): string {
  const quoted = (text: string) => (/^[\w.:/@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  const parts = [
    'vlmhyperbench load',
    quoted(form.url.trim() || 'URL'),
    `--model ${quoted(form.model.trim() || 'NAME')}`,
  ];
  if (form.mode === 'rate')
    parts.push(`--scenario server --rate ${form.rate} --arrivals ${form.arrivals} --duration ${form.duration}`);
  else if (form.concurrency === 1) parts.push(`--scenario single_stream --requests ${form.requests}`);
  else parts.push(`--scenario multi_stream --concurrency ${form.concurrency} --requests ${form.requests}`);
  parts.push(`--prompt-tokens ${form.prompt} --output-tokens ${form.output}`);
  if (form.images > 0) parts.push(`--images ${form.images} --image-size ${form.size}`);
  const limits = limitsOf(form).map(([name, limit]) => `${name}<${limit}ms`);
  if (limits.length > 0) parts.push(`--slo '${limits.join(',')}'`);
  return parts.join(' ');
}
