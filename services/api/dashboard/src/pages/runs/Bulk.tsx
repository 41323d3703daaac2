/** What is done to the chosen runs together: compare at once, all else after a question. */
import { Button, Modal } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import type { Steering } from '../../api/actions';
import { equals } from '../../api/filters';
import { rowsQuery } from '../../api/listing';
import { isOpen } from '../../api/queries';
import { useKeys } from '../../app/keys';
import { useAllowed } from '../../ui/allowed';
import { ExportButton } from '../../ui/Exports';
import { count } from '../../ui/format';
import { Problem } from '../../ui/Notes';
import { LABELS, SteeringQuestion } from '../../ui/SteeringQuestion';
import type { Listed } from './listed';

const MAX_COMPARED = 20;
const FITS: Readonly<Record<Steering, (run: Listed) => boolean>> = {
  pause: (run) => isOpen(run) && !run.is_paused && !run.is_cancelling,
  resume: (run) => isOpen(run) && run.is_paused,
  cancel: (run) => isOpen(run) && !run.is_cancelling,
  rerun: (run) => !isOpen(run),
};
const STEERINGS = ['pause', 'resume', 'cancel', 'rerun'] as const;

interface ChosenProps {
  ids: readonly string[];
  /** The rows that the page shows; chosen runs of other pages and filters are asked for. */
  rows: readonly Listed[];
  /** Leave only these chosen. */
  keep: (ids: readonly string[]) => void;
}

export function Chosen({ ids, rows, keep }: ChosenProps) {
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
      {runs.length + gone > 0 ? <Bulk runs={runs} gone={gone} keep={keep} /> : null}
    </>
  );
}

function Bulk({ runs, gone, keep }: { runs: readonly Listed[]; gone: number; keep: ChosenProps['keep'] }) {
  const [asked, setAsked] = useState<Steering | null>(null);
  const mayWrite = useAllowed('run:write');
  const ended = runs.filter((run) => !isOpen(run)).map((run) => run.id);
  const compared = runs.filter((run) => run.score !== null).slice(0, MAX_COMPARED);
  const search = { runs: compared.map((run) => run.id).join(',') };
  const navigate = useNavigate();
  useKeys({ c: () => void (compared.length > 1 && navigate({ to: '/compare', search })) });
  return (
    <div className="filters" role="toolbar" aria-label="Chosen runs">
      <span className="sub">
        {count(runs.length)} chosen{gone > 0 ? `, and ${count(gone)} that ${gone === 1 ? 'is' : 'are'} not there` : ''}
      </span>
      {compared.length > 1 ? (
        <Link to="/compare" search={search}>
          Compare {compared.length}
        </Link>
      ) : null}
      {mayWrite
        ? STEERINGS.filter((steering) => runs.some(FITS[steering])).map((steering) => (
            <Button
              key={steering}
              size="xs"
              variant="default"
              className={steering === 'cancel' ? 'danger' : ''}
              onClick={() => setAsked(steering)}
            >
              {LABELS[steering]}
            </Button>
          ))
        : null}
      {ended.length > 0 ? <ExportButton of={{ runs: ended }} /> : null}
      <Button size="xs" variant="subtle" onClick={() => keep([])}>
        Clear
      </Button>
      <Modal
        opened={asked !== null}
        onClose={() => setAsked(null)}
        title={asked ? LABELS[asked] : ''}
        size="sm"
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        {asked ? (
          <SteeringQuestion steering={asked} runs={runs.filter(FITS[asked])} close={() => setAsked(null)} done={keep} />
        ) : null}
      </Modal>
    </div>
  );
}
