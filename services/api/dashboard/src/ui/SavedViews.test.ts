import { describe, expect, it } from 'vitest';
import { searchOf } from './SavedViews';

describe('what a view keeps of an address', () => {
  it('is its query without the place in the list', () => {
    expect(searchOf('?q=a%20b&cursor=xyz&order=name')).toBe('q=a+b&order=name');
    expect(searchOf('')).toBe('');
  });
});
