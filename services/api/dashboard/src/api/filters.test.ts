import { expect, it } from 'vitest';
import { equalled, equals } from './filters';

it('keeps the commas of values, and separates values by commas', () => {
  expect(equals('task', 'invoices, scanned')).toBe('task=invoices\\, scanned');
  expect(equals('id', 'a', 'b,c')).toBe('id=a,b\\,c');
  expect(equalled(['q~a', equals('tags', 'a,b')], 'tags')).toBe('a,b');
  expect(equalled(['tags!=a'], 'tags')).toBeNull();
});
