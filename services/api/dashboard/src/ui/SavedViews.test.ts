import { describe, expect, it } from 'vitest';
import { searchOf } from './SavedViews';

describe('what a view keeps of an address', () => {
  it('is its query without the place in the list and what is chosen in it', () => {
    expect(searchOf('?q=a%20b&cursor=xyz&chosen=1%2C2&order=name')).toBe('q=a+b&order=name');
    expect(searchOf('')).toBe('');
  });
});
