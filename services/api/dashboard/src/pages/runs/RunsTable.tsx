/** The table of runs: state, progress, headline score with its interval, speeds, memory and cost. */
import { Checkbox } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useMemo } from 'react';
import { isOpen, type Run } from '../../api/queries';
import { Ago } from '../../ui/Ago';
import { type ColumnSpec, columnsOf, DataTable } from '../../ui/DataTable';
import { bytes, count, milliseconds, money, perSecond, words } from '../../ui/format';
import { Measured } from '../../ui/Measured';
import { RunProgress } from '../../ui/RunProgress';
import { StateBadge } from '../../ui/StateBadge';

export interface Selection {
  ids: ReadonlySet<string>;
  toggle: (id: string) => void;
}

const SPECS: readonly ColumnSpec<Run>[] = [
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
        {run.reason ? <div className="reason">{run.reason}</div> : null}
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
    cell: (run) => {
      const first = run.headline?.scores?.[0];
      if (!first) return <span className="none">–</span>;
      return (
        <span className="measured">
          <Measured value={first.value} low={first.ci_low} high={first.ci_high} />
          <small>{words(first.metric)}</small>
        </span>
      );
    },
  },
  {
    id: 'latency',
    header: 'Latency p50 / p99',
    isNumber: true,
    from: 'md',
    cell: ({ headline }) => (
      <span className={headline?.validity === 'valid' ? '' : 'doubtful'} title={validityOf(headline?.validity)}>
        {milliseconds(headline?.latency_p50_ms)} / {milliseconds(headline?.latency_p99_ms)}
      </span>
    ),
  },
  {
    id: 'throughput',
    header: 'Output',
    isNumber: true,
    from: 'lg',
    cell: ({ headline }) => (
      <span className={headline?.validity === 'valid' ? '' : 'doubtful'} title={validityOf(headline?.validity)}>
        {perSecond(headline?.output_tokens_per_s, 'tokens')}
      </span>
    ),
  },
  {
    id: 'memory',
    header: 'Peak memory',
    isNumber: true,
    from: 'lg',
    cell: ({ headline }) => (
      <span title={headline?.peak_memory_of ?? undefined}>{bytes(headline?.peak_memory_bytes)}</span>
    ),
  },
  {
    id: 'cost',
    header: 'Cost',
    isNumber: true,
    from: 'xl',
    cell: ({ headline }) => (
      <span title={headline?.cost_unknown ?? undefined}>{money(headline?.cost_total, headline?.cost_currency)}</span>
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

function validityOf(validity: string | null | undefined): string | undefined {
  if (validity === 'valid') return 'All conditions of a speed measurement held.';
  return validity ? `No speed measurement: ${words(validity)}.` : undefined;
}

interface Props {
  runs: readonly Run[];
  label: string;
  selection?: Selection;
  current?: string | undefined;
}

export function RunsTable({ runs, label, selection, current }: Props) {
  const columns = useMemo(() => {
    if (selection === undefined) return PLAIN;
    const choose: ColumnSpec<Run> = {
      id: 'choose',
      header: <span className="visually-hidden">Choose</span>,
      cell: (run) => (
        <Checkbox
          size="xs"
          checked={selection.ids.has(run.id)}
          onChange={() => selection.toggle(run.id)}
          aria-label={`Choose ${run.name}`}
        />
      ),
    };
    return columnsOf([choose, ...SPECS]);
  }, [selection]);
  return <DataTable columns={columns} rows={runs} idOf={(run) => run.id} label={label} current={current} />;
}
