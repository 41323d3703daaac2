import { describe, expect, it } from 'vitest';
import { readPreferences } from './preferences';

describe('preferences', () => {
  it('are the defaults where nothing, no JSON or an unknown value is stored', () => {
    const defaults = { density: 'comfortable', zone: 'UTC', task: '' };
    expect([null, '{', '7', '{"density":"tiny","zone":3,"task":[]}'].map(readPreferences)).toEqual(
      Array(4).fill(defaults),
    );
  });
  it('are what was stored', () => {
    expect(readPreferences('{"density":"compact","zone":"local","task":"t"}')).toEqual({
      density: 'compact',
      zone: 'local',
      task: 't',
    });
  });
});
