/** The devices of a running claim: a sample a second of the last five minutes. */
import { useMemo } from 'react';
import { useResourcesLive } from '../../api/live';
import { StripChart } from './StripChart';
import { liveStripsOf } from './strips';

export function LiveResources({ id }: { id: string }) {
  const points = useResourcesLive(id);
  const strips = useMemo(() => liveStripsOf(points), [points]);
  const lasting = strips[0]?.lines[0]?.at_s.at(-1) ?? 0;
  return (
    <section className="card" aria-label="Resources now">
      <header>
        <h2>Now</h2>
        <span className="sub">a sample a second since this page was opened, at most the last five minutes</span>
      </header>
      <div className="body strips">
        {points.length < 2 ? <p className="sub">Waiting for samples of its devices …</p> : null}
        {points.length < 2
          ? null
          : strips.map((strip) => <StripChart key={strip.name} strip={strip} seconds={lasting} />)}
      </div>
    </section>
  );
}
