import { expect, it } from 'vitest';
import { matching, type Summary } from './queries';

const entries: Summary[] = [
  { kind: 'models', name: 'tiny-doc', version: '1', description: 'A small reader' },
  { kind: 'tasks', name: 'document-qa', version: '1', description: 'Questions about tiny pages' },
];

it('finds entries of a kind by all words of name and description', () => {
  const names = (kind: string | undefined, q: string) => matching(entries, kind, q).map(({ name }) => name);
  expect(names(undefined, 'TINY')).toEqual(['tiny-doc', 'document-qa']);
  expect(names('tasks', 'tiny')).toEqual(['document-qa']);
  expect(names(undefined, 'tiny reader')).toEqual(['tiny-doc']);
});
