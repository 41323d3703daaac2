/** What a run uses at this moment of its machine and accelerators, as its worker has last measured it. */
import { useProgress } from '../../api/live';
import type { Progress } from '../../api/queries';
import { bytes, fixed } from '../../ui/format';

type Resources = NonNullable<Progress['resources']>;

export function ResourceMeters({ id }: { id: string }) {
  const resources = useProgress(id)?.resources;
  return resources ? <Meters resources={resources} /> : null;
}

export function Meters({ resources }: { resources: Resources }) {
  const accelerator = resources.accelerator_util_percent;
  return (
    <dl className="meters">
      {accelerator === null || accelerator === undefined ? null : <Share name="Accelerator" percent={accelerator} />}
      <Share name="Processor" percent={resources.cpu_util_percent} />
      <Amount name="Accelerator memory" value={resources.accelerator_memory_used_bytes} />
      <Amount name="Engine memory" value={resources.engine_rss_bytes} />
      <Amount name="Machine memory" value={resources.memory_used_bytes} />
      {resources.power_accelerator_w ? (
        <div>
          <dt>Power</dt>
          <dd>{fixed(resources.power_accelerator_w, 0)} W</dd>
        </div>
      ) : null}
    </dl>
  );
}

function Share({ name, percent }: { name: string; percent: number }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {fixed(percent, 0)} %
        <span className="track" aria-hidden="true">
          <span style={{ width: `${Math.min(100, Math.max(0, percent))}%` }} />
        </span>
      </dd>
    </div>
  );
}

function Amount({ name, value }: { name: string; value: number | null | undefined }) {
  if (value === null || value === undefined) return null;
  return (
    <div>
      <dt>{name}</dt>
      <dd>{bytes(value)}</dd>
    </div>
  );
}
