/** The command line that makes the load of the form from this machine, without a stack. Pure. */
import { DEFAULTS, type Form, isAtRate, isByRule, limitsOf, scenarioOf, sweepBodyOf } from './form';

/** What a command does, and what one that only the command line can do needs. */
export const COMMANDS: Record<Form['command'], { name: string; does: string }> = {
  '': { name: 'The same load', does: 'What the button starts, from this machine and without a stack.' },
  search: {
    name: 'Largest rate',
    does: 'Finds the largest rate of scenario server that keeps the limits, by measuring at one rate after the other.',
  },
  precision: {
    name: 'Until precise',
    does: 'Repeats the load until half the 95 % interval of its main metric is at most this share of the mean, at most 30 times.',
  },
  against: {
    name: 'Two servers',
    does: 'Measures both in five pairs, or as many as there are repeats, and gives the ratios of the second to the first.',
  },
};

/** What a command still needs; nothing where it can be run. */
export function commandLacks(form: Form): string | undefined {
  if (form.command === 'search' && limitsOf(form).length === 0)
    return 'A search needs a limit: give that of TTFT, of TPOT or of the latency.';
  if (form.command === 'precision' && !(form.precision > 0 && form.precision < 100))
    return 'The precision is above 0 and below 100 %.';
  if (form.command === 'against' && form.against.trim() === '') return 'Give the URL of the second server.';
  return undefined;
}

/** The command; a search is of scenario server and sets preset, duration and rates itself. */
export function commandOf(given: Form): string {
  const form = asMeasured(given);
  const isSearch = form.command === 'search';
  const scenario = scenarioOf(form);
  const isRule = isByRule(form);
  const isDrawn = isAtRate(form) && !isRule;
  const limits = limitsOf(form).map(([name, limit]) => `${name}<${limit}ms`);
  const sweep = sweepBodyOf(form);
  const flags: [string, string | number, boolean][] = [
    ['model', quoted(form.model.trim() || 'NAME'), true],
    ['api-key-env', 'API_KEY', form.key.trim() !== ''],
    ['scenario', scenario, true],
    ['preset', form.preset, isRule],
    ['trace', 'trace.jsonl', form.mode === 'trace'],
    ['speed', form.speed, form.mode === 'trace' && form.speed !== 1],
    ['sweep', `${sweep?.axis}=${sweep?.values.join(',')}`, sweep !== undefined],
    ['rate', form.rate, isAtRate(form) && sweep === undefined && !isSearch],
    ['arrivals', form.arrivals, isDrawn],
    ['cv', form.cv, isDrawn && form.arrivals === 'gamma'],
    ['burst-size', form.burst, isDrawn && form.arrivals === 'burst'],
    ['to-rate', form.to, isDrawn && form.arrivals === 'ramp'],
    ['duration', form.duration, form.mode === 'rate' && !isRule && !isSearch],
    ['concurrency', form.concurrency, hasStreams(form) && sweep === undefined],
    ['requests', form.requests, (form.mode === 'concurrency' || form.mode === 'batch') && !isRule],
    ['conversations', form.conversations, form.mode === 'talks' && !isRule],
    ['turns', form.turns, form.mode === 'talks'],
    ['think', form.think, form.mode === 'talks'],
    ['prompt', quoted(form.text), form.text.trim() !== ''],
    [
      'prompt-tokens',
      form.prompt,
      form.text.trim() === '' && !(form.preset === 'vlm' && form.prompt === DEFAULTS.prompt),
    ],
    ['output-tokens', form.output, true],
    ['images', form.images, form.images > 0],
    ['image-size', form.size, form.images > 0],
    ['image-reuse', form.reuse, form.images > 0 && form.reuse > 0],
    ['slo', `'${limits.join(',')}'`, limits.length > 0],
    ['warmup', form.warmup, form.warmup !== DEFAULTS.warmup],
    ['baseline', form.baseline, scenario === 'multi_stream' && !isRule],
    ['timeout', form.timeout, form.timeout !== DEFAULTS.timeout],
    ['until-precision', `${form.precision}%`, form.command === 'precision'],
    ['against', quoted(form.against.trim() || 'URL2'), form.command === 'against'],
    ['repeats', form.repeats, form.repeats > 1 && sweep === undefined],
    ['seed', form.seed, form.seed !== 0],
    ['extra-body', quoted(form.extra.trim()), form.extra.trim() !== ''],
  ];
  return [
    'vlmhyperbench load',
    quoted(form.url.trim() || 'URL'),
    ...flags.filter(([, , isGiven]) => isGiven).map(([name, value]) => `--${name} ${value}`),
    ...(isSearch ? ['--search-rate'] : []),
    ...(form.eos ? ['--ignore-eos'] : []),
  ].join(' ');
}

/** The form without what the chosen command sets itself. */
function asMeasured(form: Form): Form {
  if (form.command === '') return form;
  const once: Form = { ...form, sweep: '' };
  if (form.command !== 'search') return once;
  const arrivals = form.arrivals === 'ramp' ? DEFAULTS.arrivals : form.arrivals;
  return { ...once, mode: 'rate', preset: '', repeats: 1, arrivals };
}

function hasStreams(form: Form): boolean {
  return form.mode === 'batch' || scenarioOf(form) === 'multi_stream' || (form.mode === 'talks' && !form.arriving);
}

function quoted(text: string): string {
  return /^[\w.:/@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
