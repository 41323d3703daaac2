import { describe, expect, it } from 'vitest';
import { equalled } from '../../api/filters';
import { changed, choose, columnOf, freeFilters, isFilter, readSampleSearch } from './selection';

describe('the selection of samples', () => {
  it('is read from an address that anybody may have written', () => {
    expect(readSampleSearch({ where: 'is_wrong=true', q: 42, order: '', against: null })).toEqual({
      where: ['is_wrong=true'],
      q: '42',
    });
    expect(readSampleSearch({ where: [{}, 'a=1', ''] })).toEqual({ where: ['a=1'] });
    expect(readSampleSearch({ where: Array.from({ length: 30 }, (_, no) => `a=${no}`) }).where).toHaveLength(20);
  });

  it('has one value for a column that a control sets, and keeps what no control shows', () => {
    const where = ['outcome=answered', 'metrics.anls<0.5', 'metrics.anls>=0.1'];
    expect(equalled(where, 'outcome')).toBe('answered');
    expect(equalled(where, 'metrics.anls')).toBeNull();
    expect(choose(where, 'outcome', 'model_failure')).toEqual([
      'metrics.anls<0.5',
      'metrics.anls>=0.1',
      'outcome=model_failure',
    ]);
    expect(choose(['outcome=answered'], 'outcome', null)).toEqual([]);
    expect(freeFilters(where, ['outcome'])).toEqual(['metrics.anls<0.5', 'metrics.anls>=0.1']);
  });

  it('keeps the commas of a value that a control sets', () => {
    const where = choose([], 'group.kind', 'invoice, scanned');
    expect(where).toEqual(['group.kind=invoice\\, scanned']);
    expect(equalled(where, 'group.kind')).toBe('invoice, scanned');
  });

  it('names the column of a filter by its first operator', () => {
    expect(columnOf('metrics.anls<=0.5')).toBe('metrics.anls');
    expect(columnOf('key~a=b')).toBe('key');
    expect(columnOf('key')).toBe('key');
    expect([isFilter('key'), isFilter('=1'), isFilter('key!=1')]).toEqual([false, false, true]);
  });

  it('leaves nothing empty in the address', () => {
    expect(changed({ q: 'a', where: ['a=1'] }, { q: '', where: [] })).toEqual({});
    expect(changed({ q: 'a' }, { order: '-value' })).toEqual({ q: 'a', order: '-value' });
  });
});
