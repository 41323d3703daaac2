import { describe, expect, it } from 'vitest';
import { ruleOf, withRule } from './rules';

describe('a rule of a gate', () => {
  it('is the lines of its kind, and nothing without a number', () => {
    expect(ruleOf('max_drop', 'anls@inclusive', '0,01')).toBe('- metric: "anls@inclusive"\n  max_drop: 0.01\n');
    expect(ruleOf('latency', '', '0.1')).toBe('- speed: latency_p99_ms\n  max_increase: 0.1\n');
    expect(['', ' ', 'much'].map((limit) => ruleOf('failures', '', limit))).toEqual([null, null, null]);
  });
  it('is put at the end of the policy', () => {
    const first = withRule('', '- parity: same_text\n  min: 1\n');
    expect(first).toBe('rules:\n- parity: same_text\n  min: 1\n');
    expect(withRule(`${first}\n\n`, '- share: missing\n  max: 0\n')).toBe(`${first}- share: missing\n  max: 0\n`);
  });
});
