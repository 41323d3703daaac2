/** What a device does now, as its worker read it with its last heartbeat; nothing where it was never read. */
import type { Schemas } from '../api/client';
import { bytes, fixed } from './format';

type Device = Schemas['Device'];

export function DeviceUse({ device, isStale }: { device: Device; isStale: boolean }) {
  if (isStale || !device.read_at) return null;
  return (
    <dl className="meters">
      {device.util_percent === null || device.util_percent === undefined ? null : (
        <Meter
          name={device.kind === 'cpu' ? 'Processors' : 'Use'}
          text={`${fixed(device.util_percent, 0)} %`}
          share={device.util_percent / 100}
        />
      )}
      {device.used_bytes === null || device.used_bytes === undefined ? null : (
        <Meter
          name={device.kind === 'cpu' ? 'Memory of the machine' : 'Memory'}
          text={`${bytes(device.used_bytes)} used`}
          share={device.memory_bytes > 0 ? device.used_bytes / device.memory_bytes : 0}
        />
      )}
    </dl>
  );
}

function Meter({ name, text, share }: { name: string; text: string; share: number }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {text}
        <span className="track" aria-hidden="true">
          <span style={{ width: `${Math.min(1, Math.max(0, share)) * 100}%` }} />
        </span>
      </dd>
    </div>
  );
}
