import { expect, it } from 'vitest';
import { fieldsOf, objectOf, type Schema } from './schema';

const root: Schema = {
  $defs: {
    Decoding: { properties: { n: { type: 'integer' } }, description: 'How it samples.' },
    Choice: { properties: { name: { type: 'string' } }, required: ['name'] },
  },
  required: ['task'],
  properties: {
    task: { type: 'string' },
    limit: { anyOf: [{ type: 'integer' }, { type: 'null' }], description: 'Maximum.' },
    decoding: { anyOf: [{ $ref: '#/$defs/Decoding' }, { type: 'null' }] },
    dataset: { anyOf: [{ oneOf: [{ type: 'string' }, { $ref: '#/$defs/Choice' }] }, { type: 'null' }] },
    reuse: { anyOf: [{ enum: ['equal', 'nothing'], type: 'string' }, { type: 'null' }] },
    metrics: { anyOf: [{ type: 'array', items: { type: 'string' } }, { type: 'null' }] },
    params: { type: 'object' },
    shares: { type: 'boolean' },
  },
};

it('chooses an input for each property of a schema', () => {
  const fields = Object.fromEntries(fieldsOf(root, root).map((field) => [field.key, field]));
  expect(Object.entries(fields).map(([key, { input }]) => [key, input])).toEqual([
    ['task', 'text'],
    ['limit', 'number'],
    ['decoding', 'group'],
    ['dataset', 'text'],
    ['reuse', 'choice'],
    ['metrics', 'lines'],
    ['params', 'json'],
    ['shares', 'flag'],
  ]);
  expect(fields.task?.isRequired).toBe(true);
  expect(fields.limit?.description).toBe('Maximum.');
  expect(fields.decoding?.description).toBe('How it samples.');
  expect(fields.reuse?.choices).toEqual(['equal', 'nothing']);
  expect(objectOf(root.properties?.dataset ?? {}, root)?.required).toEqual(['name']);
});
