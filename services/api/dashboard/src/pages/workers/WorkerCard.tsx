/** A worker: heartbeat, version, its devices with reserved memory, and the models that stay loaded. */
import { Button } from '@mantine/core';
import type { Worker } from '../../api/queries';
import { Ago } from '../../ui/Ago';
import { DeviceUse } from '../../ui/DeviceUse';
import { bytes, shortId } from '../../ui/format';
import type { Asked } from './Confirm';
import { useMayChange } from './queries';
import { deviceState, workerState } from './states';

interface Props {
  worker: Worker;
  ask: (asked: Asked) => void;
}

export function WorkerCard({ worker, ask }: Props) {
  const mayChange = useMayChange();
  const state = workerState(worker);
  const name = worker.name;
  return (
    <section className="card worker" aria-label={`Worker ${name}`}>
      <header>
        <h2>
          <bdi>{name}</bdi>
        </h2>
        <span className={`badge ${state.tone}`}>{state.word}</span>
        <span className="end">
          {mayChange && state.word !== 'gone' ? (
            <Button
              size="compact-xs"
              variant="default"
              onClick={() => ask({ kind: worker.drained ? 'resume' : 'drain', scope: 'worker', name })}
              aria-label={`${worker.drained ? 'Resume' : 'Drain'} ${name}`}
            >
              {worker.drained ? 'Resume' : 'Drain'}
            </Button>
          ) : null}
        </span>
      </header>
      <div className="body stack">
        <p className="sub">
          {worker.kind} on <bdi>{worker.host}</bdi> · heartbeat <Ago at={worker.last_seen_at} /> · {worker.slots}{' '}
          {worker.slots === 1 ? 'slot' : 'slots'} · version {worker.version} · process {worker.pid}
          {worker.is_declared ? ' · declared, not started' : ''} · <code title={worker.id}>{shortId(worker.id)}</code>
        </p>
        {worker.drained ? <p className="stale">Drained: {worker.drained}</p> : null}
        <Devices worker={worker} ask={ask} />
        {(worker.resident ?? []).length > 0 ? (
          <p className="sub">
            Stay loaded, by fingerprint:{' '}
            {(worker.resident ?? []).map((fingerprint) => (
              <code key={fingerprint} className="badge" title={fingerprint}>
                {shortId(fingerprint)}
              </code>
            ))}
          </p>
        ) : null}
      </div>
    </section>
  );
}

function Devices({ worker, ask }: Props) {
  const mayChange = useMayChange();
  const devices = worker.devices ?? [];
  if (devices.length === 0) return null;
  return (
    <ul className="worker-devices">
      {devices.map((device) => {
        const state = deviceState(worker, device);
        const reserved = device.reserved_bytes ?? 0;
        const share = device.memory_bytes > 0 ? Math.min(1, reserved / device.memory_bytes) : 0;
        const isDrained = Boolean(device.drained);
        return (
          <li key={device.uuid}>
            <div className="line-head">
              <strong>
                {device.no}: <bdi>{device.name}</bdi>
              </strong>
              <span className={`badge ${state.tone}`}>{state.word}</span>
              <span className="sub">
                {mayChange && device.state === 'BROKEN' ? (
                  <Button
                    size="compact-xs"
                    variant="default"
                    onClick={() => ask({ kind: 'release', uuid: device.uuid, name: device.name })}
                  >
                    Release
                  </Button>
                ) : mayChange ? (
                  <Button
                    size="compact-xs"
                    variant="subtle"
                    onClick={() => ask({ kind: isDrained ? 'resume' : 'drain', scope: 'device', name: device.uuid })}
                    aria-label={`${isDrained ? 'Resume' : 'Drain'} device ${device.no} of ${worker.name}`}
                  >
                    {isDrained ? 'Resume' : 'Drain'}
                  </Button>
                ) : null}
              </span>
            </div>
            <div className="progress">
              <div className="track" aria-hidden="true">
                <span style={{ width: `${share * 100}%` }} />
              </div>
              <p>
                {bytes(reserved)} reserved of {bytes(device.memory_bytes)} · {device.jobs ?? 0}{' '}
                {device.jobs === 1 ? 'job' : 'jobs'} · {device.kind}
              </p>
            </div>
            <DeviceUse device={device} isStale={worker.is_stale || worker.state === 'GONE'} />
            {device.state_reason || device.drained ? (
              <p className="reason">{device.state_reason ?? device.drained}</p>
            ) : null}
          </li>
        );
      })}
    </ul>
  );
}
