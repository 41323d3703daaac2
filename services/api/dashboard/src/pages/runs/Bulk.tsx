/** What is done to the chosen runs together: compare at once, all else after a question. */
import { Button, Modal } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { type Steering, useSteering } from '../../api/actions';
import { equals } from '../../api/filters';
import { rowsQuery } from '../../api/listing';
import { isOpen } from '../../api/queries';
import { useAllowed } from '../../ui/allowed';
import { ExportButton } from '../../ui/Exports';
import { count } from '../../ui/format';
import { Problem } from '../../ui/Notes';
import type { Listed } from './listed';

const MAX_COMPARED = 20;
const MAX_NAMED = 8;
const ACTIONS: readonly { steering: Steering; label: string; meaning: string; fits: (run: Listed) => boolean }[] = [
  {
    steering: 'pause',
    label: 'Pause',
    meaning: 'What runs is finished; nothing more of them is begun until they are resumed.',
    fits: (run) => isOpen(run) && !run.is_paused && !run.is_cancelling,
  },
  {
    steering: 'resume',
    label: 'Resume',
    meaning: 'They go on where they were paused.',
    fits: (run) => isOpen(run) && run.is_paused,
  },
  {
    steering: 'cancel',
    label: 'Cancel',
    meaning: 'They end; what they have answered is kept. A cancelled run cannot go on, only be run again.',
    fits: (run) => isOpen(run) && !run.is_cancelling,
  },
  {
    steering: 'rerun',
    label: 'Run again',
    meaning: 'A new run of each is submitted, which asks only what is new, changed or has failed.',
    fits: (run) => !isOpen(run),
  },
];
type Action = (typeof ACTIONS)[number];

interface ChosenProps {
  ids: readonly string[];
  /** The rows that the page shows; chosen runs of other pages and filters are asked for. */
  rows: readonly Listed[];
  clear: () => void;
}

export function Chosen({ ids, rows, clear }: ChosenProps) {
  const elsewhere = ids.filter((id) => !rows.some((row) => row.id === id));
  const query = useQuery({
    ...rowsQuery({ where: [equals('id', ...elsewhere)], limit: elsewhere.length }),
    enabled: elsewhere.length > 0,
  });
  const known = [...rows, ...(query.data?.items ?? [])];
  const runs = ids.flatMap((id) => known.find((row) => row.id === id) ?? []);
  const isRead = elsewhere.length === 0 || (query.isSuccess && !query.isPlaceholderData);
  const gone = isRead ? ids.length - runs.length : 0;
  return (
    <>
      {query.error ? <Problem error={query.error} retry={() => void query.refetch()} /> : null}
      {runs.length + gone > 0 ? <Bulk runs={runs} gone={gone} clear={clear} /> : null}
    </>
  );
}

function Bulk({ runs, gone, clear }: { runs: readonly Listed[]; gone: number; clear: () => void }) {
  const [asked, setAsked] = useState<Action | null>(null);
  const mayWrite = useAllowed('run:write');
  const ended = runs.filter((run) => !isOpen(run)).map((run) => run.id);
  const compared = runs.filter((run) => run.score !== null).slice(0, MAX_COMPARED);
  return (
    <div className="filters" role="toolbar" aria-label="Chosen runs">
      <span className="sub">
        {count(runs.length)} chosen{gone > 0 ? `, and ${count(gone)} that ${gone === 1 ? 'is' : 'are'} not there` : ''}
      </span>
      {compared.length > 1 ? (
        <Link to="/compare" search={{ runs: compared.map((run) => run.id).join(',') }}>
          Compare {compared.length}
        </Link>
      ) : null}
      {mayWrite
        ? ACTIONS.filter(({ fits }) => runs.some(fits)).map((action) => (
            <Button
              key={action.steering}
              size="xs"
              variant="default"
              className={action.steering === 'cancel' ? 'danger' : ''}
              onClick={() => setAsked(action)}
            >
              {action.label}
            </Button>
          ))
        : null}
      {ended.length > 0 ? <ExportButton of={{ runs: ended }} /> : null}
      <Button size="xs" variant="subtle" onClick={clear}>
        Clear
      </Button>
      <Modal
        opened={asked !== null}
        onClose={() => setAsked(null)}
        title={asked?.label ?? ''}
        size="sm"
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        {asked ? (
          <Question action={asked} runs={runs.filter(asked.fits)} close={() => setAsked(null)} clear={clear} />
        ) : null}
      </Modal>
    </div>
  );
}

interface QuestionProps {
  action: Action;
  runs: readonly Listed[];
  close: () => void;
  clear: () => void;
}

function Question({ action, runs, close, clear }: QuestionProps) {
  const steering = useSteering();
  return (
    <div className="stack">
      <p>
        <strong>{runs.length === 1 ? 'One run' : `${runs.length} runs`}</strong>
      </p>
      <ul className="sub bulk-names">
        {runs.slice(0, MAX_NAMED).map((run) => (
          <li key={run.id}>
            <bdi>{run.name}</bdi>
          </li>
        ))}
        {runs.length > MAX_NAMED ? <li>and {runs.length - MAX_NAMED} more</li> : null}
      </ul>
      <p className="sub">{action.meaning}</p>
      <div className="filters">
        <Button
          size="xs"
          loading={steering.isPending}
          data-autofocus
          onClick={() =>
            steering.mutate(
              { steering: action.steering, ids: runs.map((run) => run.id) },
              {
                onSuccess: () => {
                  close();
                  clear();
                },
              },
            )
          }
        >
          {asked(action, runs.length === 1 ? 'it' : 'them')}
        </Button>
        <Button size="xs" variant="default" onClick={close}>
          Leave {runs.length === 1 ? 'it as it is' : 'them as they are'}
        </Button>
      </div>
    </div>
  );
}

function asked({ steering, label }: Action, them: string): string {
  return steering === 'rerun' ? `Run ${them} again` : `${label} ${them}`;
}
