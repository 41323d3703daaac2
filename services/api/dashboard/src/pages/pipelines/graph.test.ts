import { expect, it } from 'vitest';
import { graphOf, inWords } from './graph';

const STAGES = [
  { id: 'read', inputs: [], models: ['a', 'b'] },
  { id: 'see', inputs: [], models: ['c'] },
  { id: 'merge', inputs: ['read', 'see'], models: ['d'] },
];

it('places stages behind what they get, and those that are side by side below one another', () => {
  const { nodes, edges } = graphOf(STAGES);
  const [question, read, see, merge, answer] = nodes;
  expect(read?.x).toBe(see?.x);
  expect(see?.y).toBeGreaterThan(read?.y ?? 0);
  expect([question, read, merge, answer].map((node) => node?.x ?? 0)).toEqual(
    [question, read, merge, answer].map((node) => node?.x ?? 0).sort((first, second) => first - second),
  );
  const named = edges.map(({ from, to }) => `${from.id} ${to.id}`);
  expect(named).toEqual(['question read', 'question see', 'read merge', 'see merge', 'merge answer']);
  expect(edges.some(({ isWrong }) => isWrong)).toBe(false);
});

it('marks an edge to an earlier stage, and leaves out an input that no stage has', () => {
  const { edges } = graphOf([
    { id: 'first', inputs: ['second', 'nothing'], models: [] },
    { id: 'second', inputs: ['second'], models: [] },
  ]);
  expect(edges.map(({ from, to, isWrong }) => [from.id, to.id, isWrong])).toEqual([
    ['second', 'first', true],
    ['second', 'second', true],
    ['second', 'answer', false],
  ]);
});

it('says the same in words', () => {
  expect(inWords(STAGES)).toBe(
    'read gets the question and asks a, b; see gets the question and asks c; merge gets read and see and asks d. The answer is that of merge.',
  );
});
