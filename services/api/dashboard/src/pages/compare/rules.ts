/** Rules of a gate from a form, as the lines of a policy; everything here is pure. */
export type Kind = 'max_drop' | 'min_value' | 'latency' | 'memory' | 'failures' | 'same_text';

export interface KindChoice {
  kind: Kind;
  label: string;
  isOfMetric: boolean;
  usual: string;
}

export const KINDS: readonly KindChoice[] = [
  { kind: 'max_drop', label: 'metric drops by at most', isOfMetric: true, usual: '0.01' },
  { kind: 'min_value', label: 'metric is at least', isOfMetric: true, usual: '0.9' },
  { kind: 'latency', label: 'p99 latency grows by at most (share)', isOfMetric: false, usual: '0.1' },
  { kind: 'memory', label: 'peak memory grows by at most (share)', isOfMetric: false, usual: '0.1' },
  { kind: 'failures', label: 'share of failed requests is at most', isOfMetric: false, usual: '0' },
  { kind: 'same_text', label: 'share of the same answers is at least', isOfMetric: false, usual: '0.99' },
];

/** The lines of one rule; null where the limit is no number. */
export function ruleOf(kind: Kind, metric: string, limit: string): string | null {
  const value = Number(limit.replace(',', '.'));
  if (limit.trim() === '' || !Number.isFinite(value)) return null;
  switch (kind) {
    case 'max_drop':
    case 'min_value':
      return `- metric: ${JSON.stringify(metric)}\n  ${kind}: ${value}\n`;
    case 'latency':
      return `- speed: latency_p99_ms\n  max_increase: ${value}\n`;
    case 'memory':
      return `- speed: peak_memory_bytes\n  max_increase: ${value}\n`;
    case 'failures':
      return `- share: infrastructure_failures\n  max: ${value}\n`;
    case 'same_text':
      return `- parity: same_text\n  min: ${value}\n`;
  }
}

/** A policy with one more rule at its end. */
export function withRule(policy: string, rule: string): string {
  const text = policy.trimEnd();
  return text === '' ? `rules:\n${rule}` : `${text}\n${rule}`;
}
