/** Runs against a baseline: paired differences, the answers that flipped, and in what the runs differ. */
import { Button, SegmentedControl } from '@mantine/core';
import { type UseQueryResult, useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { ExportButton } from '../../ui/Exports';
import { Loaded } from '../../ui/Loaded';
import { useTitle } from '../../ui/useTitle';
import { idsOf, withBaseline } from '../runs/chosen';
import { Chooser } from './Chooser';
import { Differences } from './Differences';
import { Flips } from './Flips';
import { Gate } from './Gate';
import { Metrics } from './Metrics';
import { type Compared, comparisonQuery, type RunsComparison, type Side } from './queries';
import { compare as route } from './route';
import { SideBySide } from './SideBySide';
import { Speeds } from './Speeds';
import './style.css';

export function ComparePage() {
  useTitle('Compare');
  const { runs, gate } = route.useSearch();
  const ids = idsOf(runs);
  const query = useQuery(comparisonQuery(ids));
  const gated = useQuery({ ...comparisonQuery(ids, gate), enabled: ids.length > 1 && gate !== undefined });
  return (
    <div className="page">
      <div className="page-head">
        <h1>Compare</h1>
        {ids.length > 0 ? (
          <Link to="/compare" className="sub">
            Choose other runs
          </Link>
        ) : null}
        {ids.length > 1 ? (
          <div className="right">
            <ExportButton of={{ runs: ids }} />
          </div>
        ) : null}
      </div>
      {ids.length < 2 ? (
        <Chooser chosen={ids} />
      ) : (
        <>
          <Loaded query={query} what="the comparison">
            {({ baseline, others }) => <Compare baseline={baseline} others={others} gated={gated} />}
          </Loaded>
          {query.error && !query.data ? <SideBySide ids={ids} /> : null}
        </>
      )}
    </div>
  );
}

interface CompareProps {
  baseline: Side;
  others: readonly Compared[];
  gated: Pick<UseQueryResult<RunsComparison>, 'data' | 'error' | 'isFetching'>;
}

function Compare({ baseline, others, gated }: CompareProps) {
  const { other, flip } = route.useSearch();
  const navigate = useNavigate({ from: '/compare' });
  const shown = others.find(({ run }) => run.id === other) ?? others[0];
  if (shown === undefined) return null;
  const ids = [baseline.id, ...others.map(({ run }) => run.id)];
  return (
    <>
      {others.length > 1 ? (
        <SegmentedControl
          size="xs"
          aria-label="Run against the baseline"
          className="states"
          value={shown.run.id}
          onChange={(id) => void navigate({ search: (old) => ({ ...old, other: id }) })}
          data={others.map(({ run }) => ({ value: run.id, label: `${run.target} · ${run.name}` }))}
        />
      ) : null}
      <div className="sides">
        <Head side={baseline} title="Baseline" />
        <Head side={shown.run} title="Other">
          <Button
            size="compact-xs"
            variant="subtle"
            onClick={() =>
              void navigate({
                search: (old) => ({ ...old, runs: withBaseline(ids, shown.run.id), other: baseline.id }),
              })
            }
          >
            Make it the baseline
          </Button>
        </Head>
      </div>
      <Banner compared={shown} />
      <Gate
        metrics={shown.metrics.map((delta) => delta.metric)}
        checked={gated.data?.others.find(({ run }) => run.id === shown.run.id)}
        error={gated.error}
        isChecking={gated.isFetching}
      />
      <Metrics compared={shown} />
      <Flips key={shown.run.id} baseline={baseline} compared={shown} flip={flip} />
      <Speeds compared={shown} />
      <Differences compared={shown} />
    </>
  );
}

function Head({ side, title, children }: { side: Side; title: string; children?: React.ReactNode }) {
  return (
    <section className="card" aria-label={title}>
      <header>
        <h2>
          <Link to="/runs/$id" params={{ id: side.id }}>
            <bdi>{side.name}</bdi>
          </Link>
        </h2>
        <span className="badge">{title}</span>
        <span className="end">{children}</span>
      </header>
      <div className="body sub">
        <bdi>{side.target}</bdi> · <bdi>{side.task}</bdi> · <bdi>{side.dataset}</bdi>
      </div>
    </section>
  );
}

/** Whether the two can be compared at all, the result in sentences, and what to mind. */
function Banner({ compared }: { compared: Compared }) {
  const tone = !compared.is_paired
    ? 'bad'
    : compared.warnings.length > 0 || !compared.is_same_samples
      ? 'warn'
      : 'good';
  const word = !compared.is_paired
    ? 'Not paired: they answer different samples'
    : compared.is_same_samples
      ? 'Paired: the same samples'
      : 'Paired on the samples of both';
  return (
    <section className="card compared-banner" aria-label="Compatibility and result">
      <div className="body stack">
        <div className="line-head">
          <span className={`badge ${tone}`}>{word}</span>
        </div>
        <p className="verdict">{compared.verdict}</p>
        {compared.warnings.length > 0 ? (
          <ul className="warnings">
            {compared.warnings.map((warning) => (
              <li key={warning}>{warning}</li>
            ))}
          </ul>
        ) : null}
      </div>
    </section>
  );
}
