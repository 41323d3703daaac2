import { expect, test } from 'vitest';
import { type DetailMessage, MAX_LINES, MAX_POINTS, MAX_SAMPLES, NONE, withMessage } from './details';

const samples = (from: number, count: number, left_out = 0): DetailMessage => ({
  type: 'samples',
  stream: 'r',
  samples: Array.from({ length: count }, (_, index) => ({
    key: `${from + index}`,
    phase: 1,
    ordinal: from + index,
    status: 'ok',
  })),
  left_out,
});

test('the newest samples stay, and those that are not named are counted', () => {
  const known = withMessage(withMessage(NONE, samples(0, 150, 7)), samples(150, 100));
  expect(known.samples).toHaveLength(MAX_SAMPLES);
  expect(known.samples.at(-1)?.ordinal).toBe(249);
  expect(known.samplesLeftOut).toBe(57);
});

test('lines keep their numbers when the oldest go', () => {
  let known = NONE;
  for (let no = 0; no <= MAX_LINES; no++)
    known = withMessage(known, {
      type: 'logs',
      stream: 'r',
      lines: [{ source: 'engine', text: `${no}` }],
      left_out: 0,
    });
  expect(known.lines[0]).toEqual({ source: 'engine', text: '1', no: 1 });
  expect(known.lines).toHaveLength(MAX_LINES);
  expect(known.linesLeftOut).toBe(1);
});

test('points of resources are bounded', () => {
  let known = NONE;
  for (let no = 0; no < MAX_POINTS + 5; no++)
    known = withMessage(known, {
      type: 'resources',
      stream: 'r',
      at: `${no}`,
      resources: { cpu_util_percent: no, memory_used_bytes: 1 },
    });
  expect(known.resources).toHaveLength(MAX_POINTS);
  expect(known.resources[0]?.cpu_util_percent).toBe(5);
});
