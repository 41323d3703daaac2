import { describe, expect, it } from 'vitest';
import type { SessionDetail, Step } from './queries';
import { MAX_IMAGES_BYTES, problemOf, questionFile } from './question';
import { groupsOf, pairsOf } from './steps';

function step(stage: string, model: string, values: Partial<Step> = {}): Step {
  return { stage, model, role: 'member', state: 'done', text: 'blue', latency_s: 1, ...values } as Step;
}

function session(steps: Step[]): SessionDetail {
  return { steps, stages: [{ id: 'read', status: 'ok', value: 'blue', confidence: 0.5 }] } as unknown as SessionDetail;
}

describe('the steps of sessions', () => {
  it('are grouped by stage, with what the stage came to', () => {
    const groups = groupsOf(session([step('read', 'a'), step('read', 'b'), step('say', 'c')]));
    expect(groups.map(({ id, steps, came }) => [id, steps.length, came?.value])).toEqual([
      ['read', 2, 'blue'],
      ['say', 1, undefined],
    ]);
  });

  it('are paired by stage, role and model, and say in what they differ; times are no difference', () => {
    const first = session([step('read', 'a'), step('read', 'b'), step('say', 'c')]);
    const second = session([
      step('read', 'a', { latency_s: 2 }),
      step('read', 'b', { text: 'red', completion_tokens: 3 }),
      step('say', 'd'),
    ]);
    expect(pairsOf(first, second).map(({ title, differs }) => [title, differs])).toEqual([
      ['read: a', []],
      ['read: b', ['answer', 'tokens']],
      ['say: c', ['only in one of them']],
      ['say: d', ['only in one of them']],
    ]);
  });
});

describe('a question', () => {
  it('is one line without an answer after the header', () => {
    const lines = questionFile('Why "blue"?\n', ['data:image/png;base64,AA==']).trimEnd().split('\n');
    const [header, row] = lines.map((line) => JSON.parse(line));
    expect(lines).toHaveLength(2);
    expect(header.schema).toBe('vlmhb/answers/v1');
    expect([row.question, row.image_urls, row.text]).toEqual(['Why "blue"?\n', ['data:image/png;base64,AA=='], null]);
  });

  it('has a bound for its images', () => {
    expect(problemOf(['a'])).toBeUndefined();
    expect(problemOf(['a'.repeat(MAX_IMAGES_BYTES), 'b'])).toContain('40 MiB');
  });
});
