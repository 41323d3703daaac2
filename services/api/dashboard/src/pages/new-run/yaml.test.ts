import { expect, it } from 'vitest';
import { toYaml } from './yaml';

it('writes nested objects and lists, and quotes what would be read as something else', () => {
  const entry = {
    target: { model: 'tiny-doc', engine_params: { n_ctx: 4096, note: 'yes: no' } },
    task: 'document-qa',
    metrics: ['anls@v1', 'true'],
    extractors: [{ name: 'regex', params: { pattern: 'a"b' } }, 'text'],
    description: 'שלום <b>',
    decoding: { temperature: 0, stop: [] },
    prompt: null,
  };
  expect(toYaml(entry)).toBe(
    [
      'target:',
      '  model: tiny-doc',
      '  engine_params:',
      '    n_ctx: 4096',
      '    note: "yes: no"',
      'task: document-qa',
      'metrics:',
      '  - anls@v1',
      '  - "true"',
      'extractors:',
      '  - name: regex',
      '    params:',
      '      pattern: "a\\"b"',
      '  - text',
      'description: "שלום <b>"',
      'decoding:',
      '  temperature: 0',
      '  stop: []',
      'prompt: null',
      '',
    ].join('\n'),
  );
});
