import { describe, expect, it } from 'vitest';
import { BLOCK_CHARACTERS, beginning, blocksOf, CUT_LINES } from './blocks';
import { boxesOf } from './boxes';
import { nearest, partsOf } from './differing';

describe('boxes of a page', () => {
  it('are read from a mapping and from a list, and the answer is marked', () => {
    const found = boxesOf({ boxes: { total: [1, 2, 4, 8] }, answer_bbox: [1, 2, 4, 8] });
    expect(found).toEqual([
      { name: 'total', left: 1, top: 2, width: 3, height: 6, isAnswer: false },
      { name: 'answer', left: 1, top: 2, width: 3, height: 6, isAnswer: true },
    ]);
    expect(boxesOf({ boxes: [[0, 0, 1, 1]] }).map(({ name }) => name)).toEqual(['0']);
  });

  it('leave out what is none', () => {
    const boxes = { a: null, b: [1, 2, 3], c: [4, 4, 2, 2], d: ['x', 0, 1, 1] };
    expect(boxesOf({ boxes, answer_bbox: 'none' })).toEqual([]);
    expect(boxesOf({})).toEqual([]);
  });
});

describe('long texts', () => {
  it('are whole in their blocks, each short', () => {
    const text = `${'line of a text\n'.repeat(10_000)}${'x'.repeat(1_000_000)}`;
    const blocks = blocksOf(text);
    expect(blocks.join('')).toBe(text);
    expect(Math.max(...blocks.map((block) => block.length))).toBeLessThanOrEqual(BLOCK_CHARACTERS);
    expect(blocksOf('')).toEqual([]);
  });

  it('never divide a pair of surrogates', () => {
    const text = `a${'😀'.repeat(BLOCK_CHARACTERS)}`;
    expect(blocksOf(text).every((block) => !/[\uD800-\uDBFF]$/.test(block))).toBe(true);
    expect(beginning(text)).not.toMatch(/[\uD800-\uDBFF]$/);
  });

  it('begin with few lines', () => {
    expect(beginning('a\n'.repeat(10_000)).split('\n')).toHaveLength(CUT_LINES);
    expect(beginning('short')).toBe('short');
  });
});

describe('the difference', () => {
  it('marks what only the answer and only the reference have', () => {
    expect(partsOf('total 12', 'total 13')).toEqual([
      { text: 'total 1', kind: 'same' },
      { text: '3', kind: 'only_reference' },
      { text: '2', kind: 'only_answer' },
    ]);
    expect(partsOf('', 'a')).toEqual([{ text: 'a', kind: 'only_reference' }]);
  });

  it('gives up on texts that have nothing in common, instead of freezing the page', () => {
    const numbers = (step: number) => Array.from({ length: 5_000 }, (_, no) => `${no * step}`).join(' ');
    expect(partsOf(numbers(3), numbers(7_919))).toBeNull();
  });

  it('is shown against the nearest reference', () => {
    expect(nearest('cat', ['dog', 'cats', 'x'])).toBe(1);
    expect(nearest('cat', ['dog', 'cat'])).toBe(1);
  });
});
