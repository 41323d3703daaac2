/** The table of runs: state, progress, headline score with its interval, speeds, memory and cost. */
import { Link } from '@tanstack/react-router';
import { type ReactNode, useMemo } from 'react';
import { isOpen } from '../../api/queries';
import { Ago } from '../../ui/Ago';
import { useAllowed } from '../../ui/allowed';
import { type ColumnSpec, columnsOf, DataTable } from '../../ui/DataTable';
import { bytes, count, milliseconds, money, perSecond, seconds, words } from '../../ui/format';
import { Measured } from '../../ui/Measured';
import { RunProgress } from '../../ui/RunProgress';
import { StateBadge } from '../../ui/StateBadge';
import { LabelsCell } from './LabelsCell';
import { cutReason, type Listed, ranFor } from './listed';

export interface Selection {
  ids: ReadonlySet<string>;
  toggle: (id: string) => void;
}

const SPECS: readonly ColumnSpec<Listed>[] = [
  {
    id: 'name',
    header: 'Run',
    cell: (run) => (
      <div className="wide-text">
        <Link to="/runs/$id" params={{ id: run.id }} className="strong">
          <bdi>{run.name}</bdi>
        </Link>
        <div className="sub">
          <bdi>{run.target}</bdi> · <bdi>{run.task}</bdi>
        </div>
        {isOpen(run) ? <RunProgress run={run} /> : null}
        {run.reason ? (
          <div className="reason">
            <bdi>{cutReason(run.reason)}</bdi>
          </div>
        ) : null}
      </div>
    ),
  },
  {
    id: 'state',
    header: 'State',
    cell: (run) => <StateBadge state={run.state} isPaused={run.is_paused} isCancelling={run.is_cancelling} />,
  },
  {
    id: 'done',
    header: 'Samples',
    isNumber: true,
    from: 'sm',
    cell: (run) => (
      <span className="measured">
        <span>{count(run.done)}</span>
        <small>
          of {count(run.total)}
          {run.failed ? `, ${count(run.failed)} failed` : ''}
        </small>
      </span>
    ),
  },
  {
    id: 'score',
    header: 'Score',
    isNumber: true,
    cell: ({ score }) =>
      score ? (
        <span className="measured">
          <Measured value={score.value} low={score.low} high={score.high} />
          <small>{words(score.metric)}</small>
        </span>
      ) : (
        <span className="none">–</span>
      ),
  },
  {
    id: 'latency',
    header: 'Latency p50 / p99',
    isNumber: true,
    from: 'md',
    cell: ({ validity, latency_p50_ms, latency_p99_ms }) => (
      <Speed validity={validity} isKnown={latency_p50_ms !== null}>
        {milliseconds(latency_p50_ms)} / {milliseconds(latency_p99_ms)}
      </Speed>
    ),
  },
  {
    id: 'throughput',
    header: 'Output',
    isNumber: true,
    from: 'lg',
    cell: ({ validity, output_tokens_per_s }) => (
      <Speed validity={validity} isKnown={output_tokens_per_s !== null}>
        {perSecond(output_tokens_per_s, 'tokens')}
      </Speed>
    ),
  },
  {
    id: 'memory',
    header: 'Peak memory',
    isNumber: true,
    from: 'lg',
    cell: ({ peak_memory_bytes }) => bytes(peak_memory_bytes),
  },
  {
    id: 'cost',
    header: 'Time / cost',
    isNumber: true,
    from: 'xl',
    cell: (run) => (
      <span className="measured">
        <span>{seconds(ranFor(run))}</span>
        {run.cost_total === null ? null : <small>{money(run.cost_total, run.cost_currency)}</small>}
      </span>
    ),
  },
  {
    id: 'when',
    header: 'Created',
    isNumber: true,
    from: 'md',
    cell: (run) => <Ago at={run.created_at} />,
  },
];
const PLAIN = columnsOf(SPECS);

interface SpeedProps {
  validity: string | null | undefined;
  isKnown: boolean;
  children: ReactNode;
}

/** A speed, marked where it is no measurement; a dash where there is none. */
function Speed({ validity, isKnown, children }: SpeedProps) {
  if (!isKnown) return <span className="none">–</span>;
  return (
    <span className={validity === 'valid' ? '' : 'doubtful'} title={validityOf(validity)}>
      {children}
    </span>
  );
}

function validityOf(validity: string | null | undefined): string | undefined {
  if (validity === 'valid') return 'All conditions of a speed measurement held.';
  return validity ? `No speed measurement: ${words(validity)}.` : undefined;
}

interface Props {
  runs: readonly Listed[];
  label: string;
  selection?: Selection;
  current?: string | undefined;
}

export function RunsTable({ runs, label, selection, current }: Props) {
  const mayEdit = useAllowed('run:write');
  const columns = useMemo(() => {
    if (selection === undefined) return PLAIN;
    const choose: ColumnSpec<Listed> = {
      id: 'choose',
      header: <span className="visually-hidden">Choose</span>,
      cell: (run) => (
        <input
          type="checkbox"
          className="check"
          checked={selection.ids.has(run.id)}
          onChange={() => selection.toggle(run.id)}
          aria-label={`Choose ${run.name}`}
        />
      ),
    };
    const labels: ColumnSpec<Listed> = {
      id: 'labels',
      header: 'Tags and note',
      from: 'lg',
      cell: ({ id, name, tags, has_note }) => (
        <LabelsCell id={id} name={name} tags={tags ?? []} hasNote={has_note ?? false} mayEdit={mayEdit} />
      ),
    };
    return columnsOf([choose, ...SPECS, labels]);
  }, [selection, mayEdit]);
  return <DataTable columns={columns} rows={runs} idOf={(run) => run.id} label={label} current={current} />;
}
