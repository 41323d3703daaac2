/** The memory of one model: what is predicted, with its source and margin, beside what was measured. */
import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { bytes, percent, words } from '../../ui/format';
import { Loaded } from '../../ui/Loaded';
import { Scroll } from '../../ui/Scroll';
import { estimateQuery, type ModelEstimate, type ModelStatus } from './queries';

const SOURCES: Readonly<Record<string, string>> = {
  static: 'computed from the headers',
  dry_run: "llama.cpp's own dry run",
};

/** What workers call the processor. */
const PROCESSOR = 'cpu';

type MeasuredPeak = NonNullable<ModelEstimate['measured']>[number];

export function Estimate({ name, status }: { name: string; status: ModelStatus | undefined }) {
  const query = useQuery(estimateQuery(name));
  const navigate = useNavigate({ from: '/pipelines' });
  return (
    <section className="card" aria-label={`Memory of ${name}`}>
      <header>
        <h2>
          Memory of <bdi>{name}</bdi>
        </h2>
        {status?.quantization ? <span className="badge">{status.quantization}</span> : null}
        <span className="end">
          <Button size="compact-xs" variant="default" onClick={() => void navigate({ search: { tab: 'models' } })}>
            Close
          </Button>
        </span>
      </header>
      <div className="body">
        <Loaded query={query} what="the estimate">
          {(estimate) => <Content estimate={estimate} />}
        </Loaded>
      </div>
    </section>
  );
}

/** A peak of an accelerator is of one of them, and without the host's part. */
function measuredNote(peak: MeasuredPeak, estimate: ModelEstimate): string {
  const isProcessor = peak.device === PROCESSOR;
  const predicted = isProcessor ? estimate.device_bytes + estimate.host_bytes : estimate.device_bytes;
  const share = predicted > 0 ? `; ${percent(peak.bytes / predicted)} of what is predicted` : '';
  return isProcessor
    ? `the most that a run's model took${share}. It counts where it is more than the estimate.`
    : `the most that a run's model took of one of them${share} for all together. It replaces the estimate there.`;
}

function Content({ estimate }: { estimate: ModelEstimate }) {
  const predicted = estimate.device_bytes + estimate.host_bytes;
  const measured = estimate.measured ?? [];
  return (
    <div className="stack">
      <Scroll label="Predicted and measured memory">
        <table className="data">
          <thead>
            <tr>
              <th scope="col">Memory</th>
              <th scope="col" className="num">
                Accelerator
              </th>
              <th scope="col" className="num">
                Host
              </th>
              <th scope="col" className="num">
                Together
              </th>
              <th scope="col">From</th>
            </tr>
          </thead>
          <tbody>
            <tr>
              <th scope="row">Predicted</th>
              <td className="num">{bytes(estimate.device_bytes)}</td>
              <td className="num">{bytes(estimate.host_bytes)}</td>
              <td className="num">{bytes(predicted)}</td>
              <td className="wide-text">{SOURCES[estimate.source] ?? words(estimate.source)}</td>
            </tr>
            <tr>
              <th scope="row">With its margin</th>
              <td className="num">{bytes(estimate.margin_device_bytes)}</td>
              <td className="num">{bytes(estimate.margin_host_bytes)}</td>
              <td className="num">{bytes(estimate.margin_device_bytes + estimate.margin_host_bytes)}</td>
              <td className="wide-text">10 % and 256 MiB more, as a load reserves it</td>
            </tr>
            {measured.map((peak) => (
              <tr key={peak.device}>
                <th scope="row">
                  Measured on <bdi>{peak.device}</bdi>
                </th>
                <td className="num">{peak.device === PROCESSOR ? null : bytes(peak.bytes)}</td>
                <td />
                <td className="num">{peak.device === PROCESSOR ? bytes(peak.bytes) : null}</td>
                <td className="wide-text">{measuredNote(peak, estimate)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      {measured.length === 0 ? (
        <p className="sub">Nothing was measured yet: a run measures what its model takes.</p>
      ) : null}
      <dl className="pairs">
        {Object.entries(estimate.parts).map(([part, size]) => (
          <div key={part} className="pair-row">
            <dt>{words(part)}</dt>
            <dd>{bytes(size)}</dd>
          </div>
        ))}
        {estimate.knobs.length > 0 ? (
          <div className="pair-row">
            <dt>what makes it smaller</dt>
            <dd>
              <code>{estimate.knobs.join(', ')}</code>
            </dd>
          </div>
        ) : null}
      </dl>
    </div>
  );
}
