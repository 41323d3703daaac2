import { describe, expect, it } from 'vitest';
import type { Run } from '../../api/queries';
import { cutReason, listedOf, ranFor } from './listed';

describe('a run in a table', () => {
  it('has the first score of its headline, and nothing where there is none', () => {
    const bare = { id: '1', name: 'a', state: 'QUEUED', done: 0, failed: 0 } as Run;
    expect(listedOf(bare)).toMatchObject({ score: null, latency_p50_ms: null, total: null });
    const scores = [{ metric: 'anls', value: 0.5, ci_low: 0.4, ci_high: 0.6, n: 9 }];
    const ended = { ...bare, headline: { scores, latency_p99_ms: 7 } } as unknown as Run;
    expect(listedOf(ended)).toMatchObject({
      score: { metric: 'anls', value: 0.5, low: 0.4, high: 0.6 },
      latency_p99_ms: 7,
    });
  });
  it('marks a reason that was cut, and no other', () => {
    expect(['a', 'a'.repeat(120), 'a'.repeat(200)].map((reason) => cutReason(reason).endsWith('…'))).toEqual([
      false,
      true,
      false,
    ]);
  });
  it('has run from its start to its end, or until now', () => {
    const started_at = '2026-01-01T00:00:00Z';
    expect(ranFor({ started_at, finished_at: '2026-01-01T00:01:30Z' })).toBe(90);
    expect(ranFor({ started_at, finished_at: null }, Date.parse('2026-01-01T00:00:10Z'))).toBe(10);
    expect(ranFor({ started_at: null, finished_at: null })).toBeNull();
  });
});
