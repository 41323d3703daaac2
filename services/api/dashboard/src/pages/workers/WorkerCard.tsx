/** A worker: heartbeat, version, what it does now, its devices with reserved memory, and the models that stay loaded. */
import { Button } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { Schemas } from '../../api/client';
import type { Worker } from '../../api/queries';
import { Ago } from '../../ui/Ago';
import { DeviceUse } from '../../ui/DeviceUse';
import { bytes, count, shortId } from '../../ui/format';
import type { Asked } from './Confirm';
import { useMayChange } from './queries';
import { deviceState, workerState } from './states';

type Job = Schemas['CurrentJob'];

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
        <Jobs worker={worker} />
        <Devices worker={worker} ask={ask} />
        {(worker.resident ?? []).length > 0 ? (
          <p className="sub resident">
            Loaded:{' '}
            {(worker.resident ?? []).map(({ digest, name }) => (
              <span key={digest} className="badge" title={`Digest of the target: ${digest}`}>
                <bdi>{name ?? 'asked by another project'}</bdi> <code>{shortId(digest)}</code>
              </span>
            ))}
          </p>
        ) : null}
      </div>
    </section>
  );
}

function Jobs({ worker }: { worker: Worker }) {
  const jobs = worker.jobs ?? [];
  if (jobs.length === 0) return null;
  return (
    <ul className="worker-jobs" aria-label={`What ${worker.name} does now`}>
      {jobs.map((job) => (
        <li key={job.id}>
          <span className="badge busy">{job.kind.toLowerCase()}</span> <Owner job={job} />
          <span className="sub">
            {job.total === null ? '' : ` · ${count(job.done)} of ${count(job.total)}`}
            {job.state === 'ASSIGNED' ? ' · not begun' : ''} · since <Ago at={job.assigned_at} />
          </span>
        </li>
      ))}
    </ul>
  );
}

function Owner({ job }: { job: Job }) {
  const name = <bdi>{job.name}</bdi>;
  if (job.run_id)
    return (
      <Link to="/runs/$id" params={{ id: job.run_id }}>
        {name}
      </Link>
    );
  if (job.experiment_id)
    return (
      <Link to="/experiments/$id" params={{ id: job.experiment_id }}>
        {name}
      </Link>
    );
  return <span className="sub">for another project</span>;
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
