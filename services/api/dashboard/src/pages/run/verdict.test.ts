import { expect, it } from 'vitest';
import { verdictOf } from './verdict';

const RUN = {
  state: 'SUCCEEDED',
  target: 'm',
  task: 't',
  done: 78,
  total: 300,
  failed: 0,
  reason: null,
  headline: { scores: [{ metric: 'exact_match', value: 0.949, ci_low: 0.889, ci_high: 0.986, n: 78 }] },
} as unknown as Parameters<typeof verdictOf>[0];

it('says that few samples are done, or that a stop rule has shown enough with them', () => {
  expect(verdictOf(RUN)).toContain('Only 78 of 300 samples are done.');
  const stopping = { rule: 'not_worse by 0.1 on exact_match@v1', state: 'shown', baseline_name: 'first' };
  const told = verdictOf({ ...RUN, stopping });
  expect(told).toContain('Its stop rule ended it after 78 of 300 samples: not_worse by 0.1 on exact_match@v1');
  expect(told).toContain('against first is shown.');
  expect(told).not.toContain('Only');
});

it('expects a score only of a run that is open', () => {
  const told = (state: string) => verdictOf({ ...RUN, state, headline: null } as Parameters<typeof verdictOf>[0]);
  expect(told('RUNNING')).toBe('m on t: no score yet.');
  expect(told('SUCCEEDED')).toBe('m has no score on t.');
  expect(told('CANCELLED')).toBe('m has no score on t.');
  expect(told('FAILED')).toBe('m has no result on t.');
});
