import { describe, expect, it } from 'vitest';
import { deviceState, workerState } from './states';

const device = {
  drained: null,
  jobs: 0,
  kind: 'cuda',
  memory_bytes: 1,
  name: 'GPU',
  no: 0,
  read_at: null,
  reserved_bytes: 0,
  state: 'OK',
  state_by: null,
  state_reason: null,
  state_since: null,
  used_bytes: null,
  util_percent: null,
  uuid: 'GPU-0',
};
const worker = { state: 'READY', is_stale: false, drained: null, devices: [device] };

describe('the state of a worker', () => {
  it('names what keeps jobs away before what it does', () => {
    const busy = { ...device, jobs: 1 };
    expect(workerState({ ...worker, devices: [busy] }).word).toBe('busy');
    expect(workerState({ ...worker, devices: [busy, { ...device, state: 'BROKEN' }] }).word).toBe('quarantine');
    expect(workerState({ ...worker, devices: [busy], drained: 'new driver' }).word).toBe('drained');
    expect(workerState({ ...worker, is_stale: true, drained: 'new driver' }).word).toBe('no heartbeat');
    expect(workerState({ ...worker, state: 'GONE', is_stale: true }).word).toBe('gone');
  });
  it('is its own word where nothing keeps jobs away', () => {
    expect(workerState(worker)).toEqual({ word: 'ready', tone: 'good' });
  });
});

describe('the state of a device', () => {
  it('follows its worker', () => {
    expect(deviceState(worker, device).word).toBe('idle');
    expect(deviceState({ ...worker, drained: 'new driver' }, { ...device, jobs: 1 }).word).toBe('drained');
    expect(deviceState({ ...worker, is_stale: true }, { ...device, state: 'BROKEN' }).word).toBe('quarantine');
  });
});
