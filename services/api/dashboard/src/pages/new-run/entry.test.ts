import { describe, expect, it } from 'vitest';
import { jsonOr, linesOf, numberOr, valueAt, withValue } from './entry';

describe('an entry', () => {
  it('is changed at a path, and loses objects that become empty', () => {
    const entry = withValue({ task: 'qa' }, ['decoding', 'max_tokens'], 5);
    expect(entry).toEqual({ task: 'qa', decoding: { max_tokens: 5 } });
    expect(valueAt(entry, ['decoding', 'max_tokens'])).toBe(5);
    expect(withValue(entry, ['decoding', 'max_tokens'], undefined)).toEqual({ task: 'qa' });
    expect(withValue({ dataset: 'a' }, ['dataset', 'name'], 'b')).toEqual({ dataset: { name: 'b' } });
  });

  it('keeps text that is no number, so that the API can refuse it at its field', () => {
    expect(['20', '1e12', '0.5', '', 'many', '0x10'].map(numberOr)).toEqual([20, 1e12, 0.5, undefined, 'many', '0x10']);
    expect(jsonOr('{"a": [1]}')).toEqual({ a: [1] });
    expect(jsonOr('{a')).toBe('{a');
    expect(linesOf('a\n\n b\n')).toEqual(['a', ' b']);
  });
});
