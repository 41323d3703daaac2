/** The answers that flipped, first of all: their page, and what both runs said. */
import { SegmentedControl } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { count, milliseconds } from '../../ui/format';
import { Loaded } from '../../ui/Loaded';
import { type Compared, type Flip, type FlippedPair, flipsQuery, type Sample, type Side } from './queries';

interface Props {
  baseline: Side;
  compared: Compared;
  flip: Flip | undefined;
}

const BOTH = 'both';

export function Flips({ baseline, compared, flip }: Props) {
  const navigate = useNavigate({ from: '/compare' });
  const counts = compared.flips;
  if (counts === null) return null;
  return (
    <section className="card" aria-label="Flips">
      <header className="flips-head">
        <h2>Flips</h2>
        <SegmentedControl
          size="xs"
          aria-label="Which flips"
          value={flip ?? BOTH}
          onChange={(value) =>
            void navigate({
              search: ({ flip: _, ...old }) => ({
                ...old,
                ...((value === 'broke' || value === 'mended') && { flip: value }),
              }),
              replace: true,
            })
          }
          data={[
            { value: BOTH, label: 'All' },
            { value: 'broke', label: `Broke ${count(counts.broke)}` },
            { value: 'mended', label: `Mended ${count(counts.mended)}` },
          ]}
        />
        <span className="sub">
          both right {count(counts.both_right)} · both wrong {count(counts.both_wrong)} · the same text in{' '}
          {count(compared.same_texts)} of {count(compared.text_pairs)}
        </span>
      </header>
      {counts.broke + counts.mended === 0 ? (
        <div className="body sub">No answer is right in one run and wrong in the other.</div>
      ) : (
        <Pairs baseline={baseline} other={compared.run} flip={flip} />
      )}
    </section>
  );
}

function Pairs({ baseline, other, flip }: { baseline: Side; other: Side; flip: Flip | undefined }) {
  const query = useQuery(flipsQuery(baseline.id, other.id, flip));
  return (
    <Loaded query={query} what="the flips">
      {({ pairs, matching }) => (
        <>
          <ul className="flips">
            {pairs.map((pair) => (
              <Pair key={pair.other.id} pair={pair} run={other.id} />
            ))}
          </ul>
          {matching !== null && matching > pairs.length ? (
            <p className="sub foot">
              The first {count(pairs.length)} of {count(matching)} are shown.
            </p>
          ) : null}
        </>
      )}
    </Loaded>
  );
}

function Pair({ pair: { other, baseline }, run }: { pair: FlippedPair; run: string }) {
  const hasBroken = other.flip === 'broke';
  return (
    <li>
      <Page sample={other} run={run} />
      <div className="flip-text">
        <p>
          <span className={`badge ${hasBroken ? 'bad' : 'good'}`}>{hasBroken ? '✕ broke' : '✓ mended'}</span>{' '}
          <bdi>{other.question}</bdi>
        </p>
        <div className="flip-answers">
          <Answer title="Baseline" sample={baseline} />
          <Answer title="Other" sample={other} />
        </div>
      </div>
    </li>
  );
}

function Page({ sample, run }: { sample: Sample; run: string }) {
  if (sample.image === null) return <span className="flip-page sub">no image</span>;
  const address = `/api/v1/runs/${run}/images/${sample.image}`;
  return (
    <a className="flip-page" href={address} target="_blank" rel="noopener">
      <img src={address} alt={`Page of sample ${sample.key ?? sample.id}`} loading="lazy" />
    </a>
  );
}

function Answer({ title, sample }: { title: string; sample: Sample | undefined }) {
  return (
    <div>
      <h3>{title}</h3>
      {sample === undefined ? (
        <p className="sub">Its answer is further down in its own order.</p>
      ) : (
        <>
          <p className="flip-answer">
            <bdi>{sample.text ?? sample.error_code ?? 'no answer'}</bdi>
          </p>
          <p className="sub">{milliseconds(sample.latency_ms)}</p>
        </>
      )}
    </div>
  );
}
