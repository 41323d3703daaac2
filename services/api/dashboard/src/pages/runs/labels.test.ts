import { describe, expect, it } from 'vitest';
import { changeOf, tagsOf } from './labels';

describe('labels', () => {
  it('are words between commas, each once', () => {
    expect(tagsOf(' a, b b ,, a,')).toEqual(['a', 'b b']);
  });
  it('change only by what the person has changed', () => {
    const before = { tags: ['a', 'b'], note: 'old' };
    expect(changeOf(before, ['b', 'c'], 'old')).toEqual({ add_tags: ['c'], remove_tags: ['a'] });
    expect(changeOf(before, ['a', 'b'], '')).toEqual({ add_tags: [], remove_tags: [], note: '' });
    expect(changeOf(before, ['b', 'a'], 'old')).toBeNull();
  });
});
