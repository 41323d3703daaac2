/** The samples of a run: a virtual list over keyset pages, with filters in the address; j, k and o move and open. */
import { Select } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useMemo, useRef } from 'react';
import { type Result, type RunDetail, resultsQuery } from '../../api/queries';
import { count, milliseconds, score, words } from '../../ui/format';
import { Loaded } from '../../ui/Loaded';
import { Empty } from '../../ui/Notes';
import { run as route } from './route';

const ROW_PX = 44;
const AHEAD_ROWS = 60;

export function Samples({ run }: { run: RunDetail }) {
  const { tab: _, ...filter } = route.useSearch();
  const query = useInfiniteQuery(resultsQuery(run.id, filter));
  const rows = useMemo(() => (query.data?.pages ?? []).flatMap((page) => page.items), [query.data]);
  return (
    <div className="stack">
      <Filters run={run} />
      <Loaded query={query} what="samples">
        {() =>
          rows.length === 0 ? (
            <Empty title="No sample is in this list">
              <p className="note-text">
                {run.done === 0 ? 'The run has no answers yet.' : 'Change the filters above.'}
              </p>
            </Empty>
          ) : (
            <List
              rows={rows}
              total={Object.values(filter).some(Boolean) ? null : run.done}
              more={query.hasNextPage && !query.isFetchingNextPage ? () => void query.fetchNextPage() : undefined}
            />
          )
        }
      </Loaded>
    </div>
  );
}

function Filters({ run }: { run: RunDetail }) {
  const search = route.useSearch();
  const navigate = useNavigate({ from: '/runs/$id' });
  const groups = (column: string) => {
    const values = (run.quality ?? []).flatMap((metric) =>
      (metric.groups?.[column] ?? []).map((group) => group.group[0] ?? ''),
    );
    return [...new Set(values)].filter(Boolean).sort();
  };
  const choose = (name: string) => (value: string | null) =>
    void navigate({ search: (old) => ({ ...old, [name]: value ?? undefined }) });
  return (
    <div className="filters">
      <Select
        size="xs"
        clearable
        aria-label="Outcome"
        placeholder="Any outcome"
        value={search.outcome ?? null}
        onChange={choose('outcome')}
        data={['answered', 'model_failure', 'infrastructure_failure'].map((value) => ({ value, label: words(value) }))}
      />
      {(['doc_class', 'question_type'] as const).map((column) =>
        groups(column).length > 1 ? (
          <Select
            key={column}
            size="xs"
            clearable
            aria-label={words(column)}
            placeholder={`Any ${words(column)}`}
            value={search[column] ?? null}
            onChange={choose(column)}
            data={groups(column)}
          />
        ) : null,
      )}
    </div>
  );
}

interface ListProps {
  rows: readonly Result[];
  total: number | null;
  more: (() => void) | undefined;
}

function List({ rows, total, more }: ListProps) {
  const place = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => place.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
  });
  const shown = virtual.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (last > rows.length - AHEAD_ROWS) more?.();
  }, [last, rows.length, more]);
  return (
    <section className="card" aria-label="Samples">
      <div className="sample-row head" aria-hidden="true">
        <span>#</span>
        <span>Question</span>
        <span>Answer</span>
        <span className="num">Score</span>
        <span className="num">Latency</span>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <div ref={place} className="samples" tabIndex={0}>
        <ul style={{ height: virtual.getTotalSize() }}>
          {shown.map((item) => {
            const row = rows[item.index];
            return row ? <Row key={item.key} row={row} top={item.start} /> : null;
          })}
        </ul>
      </div>
      <p className="sub foot">
        {count(rows.length)} {total === null ? 'loaded' : `of ${count(total)} loaded`}
      </p>
    </section>
  );
}

function Row({ row, top }: { row: Result; top: number }) {
  const first = row.measures[0];
  const value = first?.value;
  return (
    <li className="sample-row" style={{ position: 'absolute', top, left: 0, right: 0, height: ROW_PX }}>
      <span className="num">{row.ordinal}</span>
      <span className="clip">
        <bdi>{row.question ?? row.key}</bdi>
      </span>
      <span className="clip">
        {row.outcome === 'answered' ? (
          <bdi>{row.text}</bdi>
        ) : (
          <span className="badge bad">{words(row.error_code ?? row.outcome)}</span>
        )}
      </span>
      <span className="num" title={first ? words(first.metric) : undefined}>
        {value === null || value === undefined ? <span className="none">{first?.outcome ?? '–'}</span> : score(value)}
      </span>
      <span className="num">{milliseconds(row.latency_ms)}</span>
    </li>
  );
}
