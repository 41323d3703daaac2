import { describe, expect, it } from 'vitest';
import type { Entry } from '../new-run/entry';
import { changed, connected, draftOf, EMPTY, entryOf, moved, withModel, withoutStage, withStage } from './draft';

function two() {
  const draft = withStage(withStage({ ...EMPTY, name: 'mine' }, 'single', 'a'), 'multi', 'b');
  return withModel(withModel(withModel(draft, 0, 'small'), 1, 'large'), 1, 'small');
}

describe('a draft of a pipeline', () => {
  it('gives each new stage a name of its own and the answer of the one before', () => {
    const draft = withStage(two(), 'single', 'c');
    expect(draft.stages.map(({ id, inputs }) => [id, inputs])).toEqual([
      ['read', []],
      ['answer', ['read']],
      ['answer-2', ['answer']],
    ]);
  });

  it('is written as an entry without what is as by default', () => {
    expect(entryOf(two())).toEqual({
      stages: [
        { id: 'read', type: 'single', model: 'small' },
        {
          id: 'answer',
          type: 'multi',
          input_from: 'read',
          models: ['large', 'small'],
          aggregation: { type: 'vote' },
        },
      ],
    });
  });

  it('keeps an empty text and an empty list that are stated, and leaves out what is not', () => {
    const stage: Entry = {
      id: 'read',
      type: 'multi',
      models: ['small', 'large'],
      aggregation: { type: 'concat', separator: '', labels: null },
      generation: { stop: [], temperature: null },
    };
    expect(entryOf(draftOf('mine', { stages: [stage] }))).toEqual({
      stages: [{ ...stage, aggregation: { type: 'concat', separator: '' } }],
    });
  });

  it('keeps every value of an entry that it reads, and those that its form does not show', () => {
    const entry: Entry = {
      description: 'All of it',
      execution_mode: 'persistent',
      requires: ['small'],
      stages: [
        {
          id: 'read',
          type: 'multi',
          output_mode: 'question_and_answer',
          models: [
            'small',
            { model: 'large', weight: 2, optional: true, engine_params: { n_ctx: 512 } },
            { pipeline: 'inner' },
          ],
          aggregation: { type: 'synthesis', model: { model: 'merger', generation: { seed: 1 } }, on_invalid: 'vote' },
          system_prompt: 'Be short.',
          response_format: { type: 'json_schema' },
          images: false,
        },
        {
          id: 'say',
          type: 'translate',
          input_from: ['read'],
          model: 'small',
          source_language: 'German',
          target_language: 'English',
          instructions: 'Translate.',
          generation: { max_tokens: 8, temperature: 0 },
        },
      ],
    };
    expect(entryOf(draftOf('all', entry))).toEqual({
      ...entry,
      stages: [(entry.stages as Entry[])[0], { ...(entry.stages as Entry[])[1], input_from: 'read' }],
    });
  });

  it('leaves defaults out that the registry has written out', () => {
    const written: Entry = {
      name: '',
      version: '1.0.0',
      description: '',
      execution_mode: 'auto',
      requires: [],
      stages: [
        {
          id: 'read',
          type: 'single',
          input_from: null,
          output_mode: 'answer_only',
          model: { model: 'small', pipeline: null, engine_params: {}, weight: 1, optional: false },
          models: [],
          aggregation: null,
          generation: null,
          images: null,
        },
      ],
    };
    expect(entryOf(draftOf('small', written))).toEqual({ stages: [{ id: 'read', type: 'single', model: 'small' }] });
  });

  it('keeps connections when a stage is moved or renamed, and loses those of one that is removed', () => {
    const swapped = moved(two(), 1, 0);
    expect(swapped.stages.map(({ id, inputs }) => [id, inputs])).toEqual([
      ['answer', ['read']],
      ['read', []],
    ]);
    expect(moved(two(), 0, 5)).toEqual(two());
    expect(changed(two(), 0, { id: 'look' }).stages[1]?.inputs).toEqual(['look']);
    expect(withoutStage(two(), 0).stages.map(({ id, inputs }) => [id, inputs])).toEqual([['answer', []]]);
  });

  it('connects stages in their order, and none to itself', () => {
    const three = withStage(two(), 'single', 'c');
    expect(connected(three, 2, 'read', true).stages[2]?.inputs).toEqual(['read', 'answer']);
    expect(connected(three, 2, 'answer', false).stages[2]?.inputs).toEqual([]);
    expect(connected(three, 2, 'answer-2', true)).toEqual(three);
  });
});
