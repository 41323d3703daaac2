/** One run: its head with what can be done to it, and a tab for each kind of result. */
import { Button, Modal, Tabs } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { useSteering } from '../../api/actions';
import { ApiError } from '../../api/client';
import { useFollow } from '../../api/live';
import { isOpen, type RunDetail, runQuery } from '../../api/queries';
import { samplesQuery } from '../../api/samples';
import { Ago } from '../../ui/Ago';
import { useAllowed } from '../../ui/allowed';
import { ExportButton } from '../../ui/Exports';
import { seconds, shortId } from '../../ui/format';
import { Loaded } from '../../ui/Loaded';
import { RunProgress } from '../../ui/RunProgress';
import { StateBadge } from '../../ui/StateBadge';
import { LABELS as LABELS_OF_STEERING, SteeringQuestion } from '../../ui/SteeringQuestion';
import { useTitle } from '../../ui/useTitle';
import { Configuration } from './Configuration';
import { Logs } from './Logs';
import { Overview } from './Overview';
import { Performance } from './Performance';
import { Provenance } from './Provenance';
import { Resources } from './Resources';
import { Retune } from './Retune';
import { run as route, TABS, type Tab } from './route';
import { Samples } from './Samples';

const LABELS: Record<Tab, string> = {
  overview: 'Overview',
  samples: 'Samples',
  performance: 'Performance',
  resources: 'Resources',
  logs: 'Logs',
  configuration: 'Configuration',
  provenance: 'Provenance',
};

export function RunPage() {
  const { id } = route.useParams();
  const query = useQuery(runQuery(id));
  useFollow(query.data ? [query.data.id] : []);
  useTitle(query.data?.name ?? 'Run');
  return (
    <div className="page">
      <Loaded query={query} what="the run" isPage>
        {(run) => (
          <>
            {query.error instanceof ApiError && query.error.status === 404 ? (
              <p className="stale" role="alert">
                This run has been deleted. What is shown was read before.
              </p>
            ) : null}
            <Head run={run} />
            <Content run={run} />
          </>
        )}
      </Loaded>
    </div>
  );
}

function Head({ run }: { run: RunDetail }) {
  const steering = useSteering();
  const mayWrite = useAllowed('run:write');
  const [isAsked, setAsked] = useState(false);
  const steer = (kind: 'pause' | 'resume' | 'rerun') => steering.mutate({ steering: kind, runs: [run] });
  const spent = run.started_at
    ? (Date.parse(run.finished_at ?? new Date().toISOString()) - Date.parse(run.started_at)) / 1000
    : null;
  return (
    <>
      <div className="page-head">
        <h1>
          <bdi>{run.name}</bdi>
        </h1>
        <StateBadge state={run.state} isPaused={run.is_paused} isCancelling={run.is_cancelling} />
        <div className="right">
          {mayWrite && isOpen(run) ? (
            <>
              {run.can_retune ? <Retune run={run} /> : null}
              <Button
                size="xs"
                variant="default"
                loading={steering.isPending}
                onClick={() => steer(run.is_paused ? 'resume' : 'pause')}
              >
                {run.is_paused ? 'Resume' : 'Pause'}
              </Button>
              <Button
                size="xs"
                variant="default"
                className="danger"
                disabled={run.is_cancelling}
                onClick={() => setAsked(true)}
              >
                Cancel
              </Button>
            </>
          ) : null}
          {mayWrite && !isOpen(run) ? (
            <Button size="xs" variant="default" loading={steering.isPending} onClick={() => steer('rerun')}>
              Rerun
            </Button>
          ) : null}
          {isOpen(run) ? null : <ExportButton of={{ runs: [run.id] }} />}
          {run.spec.target.kind === 'import' ? null : (
            <Button
              size="xs"
              variant="default"
              renderRoot={(props) => <Link to="/runs/new" search={{ from: run.id }} {...props} />}
            >
              Run again with changes
            </Button>
          )}
          {run.headline ? (
            <Button size="xs" component="a" href={`/reports/${run.id}`} target="_blank" rel="noopener">
              Report
            </Button>
          ) : null}
        </div>
      </div>
      <Modal
        opened={isAsked}
        onClose={() => setAsked(false)}
        title={LABELS_OF_STEERING.cancel}
        size="sm"
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        <SteeringQuestion steering="cancel" runs={[run]} close={() => setAsked(false)} done={() => undefined} />
      </Modal>
      <p className="sub">
        <bdi>{run.target}</bdi> · <bdi>{run.task}</bdi> · {run.scenario} · created <Ago at={run.created_at} /> by{' '}
        {run.created_by}
        {spent === null ? '' : ` · ${seconds(spent)}`} · <code title={run.id}>{shortId(run.id)}</code>
      </p>
      {run.reason ? <p className="reason">{run.reason}</p> : null}
      <RunProgress run={run} progress={run.progress} />
    </>
  );
}

function Content({ run }: { run: RunDetail }) {
  const search = route.useSearch();
  const { tab = 'overview' } = search;
  const navigate = useNavigate({ from: '/runs/$id' });
  const queries = useQueryClient();
  const prefetch = () => void queries.prefetchInfiniteQuery(samplesQuery(run, {}));
  const choose = (value: string | null) => {
    const chosen = TABS.find((known) => known === value);
    const kept = { ...search, tab: chosen === 'overview' ? undefined : chosen, find: undefined };
    void navigate({ search: kept });
  };
  return (
    <Tabs value={tab} onChange={choose} keepMounted={false}>
      <Tabs.List>
        {TABS.map((name) => (
          <Tabs.Tab key={name} value={name} onMouseEnter={name === 'samples' ? prefetch : undefined}>
            {LABELS[name]}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      <Tabs.Panel value="overview" pt="md">
        <Overview run={run} />
      </Tabs.Panel>
      <Tabs.Panel value="samples" pt="md">
        <Samples run={run} />
      </Tabs.Panel>
      <Tabs.Panel value="performance" pt="md">
        <Performance run={run} />
      </Tabs.Panel>
      <Tabs.Panel value="resources" pt="md">
        <Resources run={run} />
      </Tabs.Panel>
      <Tabs.Panel value="logs" pt="md">
        <Logs run={run} />
      </Tabs.Panel>
      <Tabs.Panel value="configuration" pt="md">
        <Configuration run={run} />
      </Tabs.Panel>
      <Tabs.Panel value="provenance" pt="md">
        <Provenance run={run} />
      </Tabs.Panel>
    </Tabs>
  );
}
