/** What the live feed tells of a run beside its events: ended requests, device samples, log lines. All of it is bounded. */

export const KINDS = ['samples', 'resources', 'logs'] as const;
export type Kind = (typeof KINDS)[number];

export interface Sample {
  key: string;
  phase: number;
  ordinal: number;
  status: string;
  error_code?: string | null;
  latency_ms?: number | null;
  ttft_ms?: number | null;
  output_tokens?: number | null;
}

export interface ResourcePoint {
  at: string;
  cpu_util_percent: number;
  memory_used_bytes: number;
  engine_rss_bytes?: number | null;
  accelerator_memory_used_bytes?: number | null;
  accelerator_util_percent?: number | null;
  power_accelerator_w?: number | null;
}

export interface Line {
  /** Counts the lines that this page has got of the run, so that a list has keys. */
  no: number;
  source: 'engine' | 'gateway' | 'worker';
  text: string;
}

/** The newest of a run, oldest first. */
export interface Details {
  samples: readonly Sample[];
  /** Requests that ended and are not named in `samples`: too many came at once, or they are too old. */
  samplesLeftOut: number;
  resources: readonly ResourcePoint[];
  lines: readonly Line[];
  linesLeftOut: number;
}

export type DetailMessage =
  | { type: 'samples'; stream: string; samples: Sample[]; left_out: number }
  | { type: 'resources'; stream: string; at: string; resources: Omit<ResourcePoint, 'at'> }
  | { type: 'logs'; stream: string; lines: Omit<Line, 'no'>[]; left_out: number };

export const NONE: Details = { samples: [], samplesLeftOut: 0, resources: [], lines: [], linesLeftOut: 0 };
export const MAX_SAMPLES = 200;
export const MAX_POINTS = 300;
export const MAX_LINES = 1_000;

/** Return the details with those of a message; the oldest make room. */
export function withMessage(known: Details, message: DetailMessage): Details {
  switch (message.type) {
    case 'samples': {
      const samples = [...known.samples, ...message.samples];
      const dropped = Math.max(0, samples.length - MAX_SAMPLES);
      return {
        ...known,
        samples: samples.slice(dropped),
        samplesLeftOut: known.samplesLeftOut + message.left_out + dropped,
      };
    }
    case 'resources':
      return {
        ...known,
        resources: [...known.resources, { at: message.at, ...message.resources }].slice(-MAX_POINTS),
      };
    case 'logs': {
      const first = (known.lines.at(-1)?.no ?? -1) + 1;
      const lines = [...known.lines, ...message.lines.map((line, index) => ({ ...line, no: first + index }))];
      const dropped = Math.max(0, lines.length - MAX_LINES);
      return { ...known, lines: lines.slice(dropped), linesLeftOut: known.linesLeftOut + message.left_out + dropped };
    }
  }
}
