/** The devices of all present workers, with the memory that jobs have reserved. */
import type { Worker } from '../../api/queries';
import { DeviceUse } from '../../ui/DeviceUse';
import { bytes } from '../../ui/format';

export function Devices({ workers }: { workers: readonly Worker[] }) {
  const shown = workers.flatMap((worker) => (worker.devices ?? []).map((device) => ({ worker, device })));
  if (shown.length === 0) {
    return <p className="sub">No worker with a device is present. `vlmhyperbench status` shows the processes.</p>;
  }
  return (
    <ul className="devices">
      {shown.map(({ worker, device }) => {
        const share = device.memory_bytes ? Math.min(1, (device.reserved_bytes ?? 0) / device.memory_bytes) : 0;
        const isBroken = device.state === 'BROKEN';
        const drained = device.drained ?? worker.drained;
        const state = isBroken
          ? 'quarantined'
          : worker.is_stale
            ? 'stale'
            : drained
              ? 'drained'
              : device.jobs
                ? 'busy'
                : 'idle';
        const tone = isBroken ? 'bad' : worker.is_stale || drained ? 'warn' : device.jobs ? 'busy' : '';
        return (
          <li key={`${worker.id}-${device.no}`} title={device.state_reason ?? drained ?? undefined}>
            <div className="line-head">
              <strong>{device.name}</strong>
              <span className={`badge ${tone}`}>{state}</span>
            </div>
            <p className="sub">
              {worker.name} on {worker.host}
            </p>
            <div className="progress">
              <div className="track">
                <span style={{ width: `${share * 100}%` }} />
              </div>
              <p>
                {bytes(device.reserved_bytes)} reserved of {bytes(device.memory_bytes)}
                {device.jobs ? ` · ${device.jobs} ${device.jobs === 1 ? 'job' : 'jobs'}` : ''}
              </p>
            </div>
            <DeviceUse device={device} isStale={worker.is_stale} />
          </li>
        );
      })}
    </ul>
  );
}
