/** One experiment: its matrix as a heat map, its progress, and what can be done to it. */
import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { useFollow } from '../../api/live';
import { isOpen } from '../../api/queries';
import { Ago } from '../../ui/Ago';
import { useAllowed } from '../../ui/allowed';
import { ExportButton } from '../../ui/Exports';
import { shortId } from '../../ui/format';
import { Loaded } from '../../ui/Loaded';
import { Empty } from '../../ui/Notes';
import { StateBadge } from '../../ui/StateBadge';
import { useTitle } from '../../ui/useTitle';
import { statesText } from '../experiments/ExperimentsPage';
import { type ExperimentDetail, experimentQuery, useExperimentSteering } from '../experiments/queries';
import { listedOf } from '../runs/listed';
import { RunsTable } from '../runs/RunsTable';
import { axesQuery, Figures } from './Figures';
import { HeatMap } from './HeatMap';
import { areRepeats, Means } from './Means';
import { experiment as route } from './route';
import './style.css';

const MAX_FOLLOWED = 64;
const MAX_COMPARED = 20;

export function ExperimentPage() {
  const { id } = route.useParams();
  const query = useQuery(experimentQuery(id));
  const axes = useQuery(axesQuery(id));
  useTitle(query.data?.name ?? 'Experiment');
  const open = (query.data?.runs ?? []).filter(isOpen).map((run) => run.id);
  useFollow(open.slice(0, MAX_FOLLOWED));
  return (
    <div className="page">
      <Loaded query={query} what="the experiment" isPage>
        {(experiment) => (
          <>
            <Head experiment={experiment} />
            {experiment.runs.length === 0 ? (
              <Empty title="The experiment has no run" />
            ) : (
              <>
                {axes.data && areRepeats(experiment.runs, axes.data.axes) ? (
                  <Means experiment={experiment} />
                ) : (
                  <>
                    <HeatMap runs={experiment.runs} />
                    <Figures id={experiment.id} />
                  </>
                )}
                <section className="card" aria-label="Runs">
                  <header>
                    <h2>Runs</h2>
                    <span className="sub">{statesText(experiment.run_states)}</span>
                  </header>
                  <RunsTable runs={experiment.runs.map(listedOf)} label="Runs of the experiment" />
                </section>
              </>
            )}
          </>
        )}
      </Loaded>
    </div>
  );
}

function Head({ experiment }: { experiment: ExperimentDetail }) {
  const finished = experiment.runs.filter((run) => run.headline);
  return (
    <>
      <div className="page-head">
        <h1>
          <bdi>{experiment.name}</bdi>
        </h1>
        <StateBadge state={experiment.state} isPaused={experiment.is_paused} isCancelling={experiment.is_cancelling} />
        <div className="right">
          {experiment.state === 'OPEN' ? <Steering experiment={experiment} /> : null}
          {finished.length > 1 ? (
            <Link
              to="/compare"
              search={{
                runs: finished
                  .slice(0, MAX_COMPARED)
                  .map((run) => run.id)
                  .join(','),
              }}
            >
              Compare
            </Link>
          ) : null}
          {experiment.runs.length > 0 && !experiment.runs.some(isOpen) ? (
            <ExportButton of={{ experiment: experiment.id }} />
          ) : null}
          {experiment.state === 'OPEN' ? null : (
            <Button size="xs" component="a" href={`/reports/${experiment.id}`} target="_blank" rel="noopener">
              Report
            </Button>
          )}
        </div>
      </div>
      <p className="sub">
        created <Ago at={experiment.created_at} /> by <bdi>{experiment.created_by}</bdi> ·{' '}
        <code title={experiment.id}>{shortId(experiment.id)}</code>
      </p>
      {(experiment.warnings ?? []).map((warning) => (
        <p key={warning} className="stale">
          {warning}
        </p>
      ))}
    </>
  );
}

function Steering({ experiment }: { experiment: ExperimentDetail }) {
  const steering = useExperimentSteering(experiment.id);
  const [isAsked, setIsAsked] = useState(false);
  if (!useAllowed('run:write')) return null;
  if (isAsked) {
    return (
      <>
        <span className="sub">Cancel all runs that have not ended?</span>
        <Button
          size="xs"
          variant="default"
          className="danger"
          onClick={() => steering.mutate('cancel', { onSettled: () => setIsAsked(false) })}
          loading={steering.isPending}
        >
          Cancel them
        </Button>
        <Button size="xs" variant="default" onClick={() => setIsAsked(false)}>
          Let them run
        </Button>
      </>
    );
  }
  const other = experiment.is_paused ? 'resume' : 'pause';
  return (
    <>
      <Button size="xs" variant="default" loading={steering.isPending} onClick={() => steering.mutate(other)}>
        {experiment.is_paused ? 'Resume' : 'Pause'}
      </Button>
      <Button
        size="xs"
        variant="default"
        className="danger"
        disabled={experiment.is_cancelling}
        onClick={() => setIsAsked(true)}
      >
        Cancel
      </Button>
    </>
  );
}
