/** The samples of a run: a virtual list over keyset pages, with filters in the address; j, k and o move and open. */
import { Button } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useMemo, useRef, useState } from 'react';
import type { RunDetail } from '../../api/queries';
import { type SampleRow, sampleGroupsQuery, samplesQuery } from '../../api/samples';
import { useKeys } from '../../app/keys';
import { count, milliseconds, score, words } from '../../ui/format';
import { Loaded } from '../../ui/Loaded';
import { Empty } from '../../ui/Notes';
import { FlipBadge } from './FlipBadge';
import { run as route } from './route';
import { SampleFilters } from './SampleFilters';
import { isPlain, readSampleSearch, type SampleSearch } from './selection';
import './samples.css';

const ROW_PX = 44;
const AHEAD_ROWS = 80;

export function Samples({ run }: { run: RunDetail }) {
  const given = route.useSearch();
  const search = useMemo(() => readSampleSearch({ ...given }), [given]);
  const query = useInfiniteQuery(samplesQuery(run, search));
  // The API makes a table for the counts, for which the first rows should not wait.
  const groups = useQuery({ ...sampleGroupsQuery(run), enabled: query.data !== undefined || query.isError });
  const rows = useMemo(() => (query.data?.pages ?? []).flatMap((page) => page.items), [query.data]);
  const first = query.data?.pages[0];
  return (
    <div className="stack">
      <SampleFilters run={run} groups={groups.data ?? []} columns={first?.columns ?? []} />
      <Loaded query={query} what="samples">
        {() =>
          rows.length === 0 ? (
            <Empty title={isPlain(search) ? 'There is no sample yet' : 'No sample passes these filters'}>
              <p className="note-text">
                {isPlain(search)
                  ? 'Samples are here as soon as they are answered.'
                  : `Remove a filter; the run has ${count(first?.total ?? run.done)} samples.`}
              </p>
            </Empty>
          ) : (
            <List
              key={JSON.stringify(search)}
              run={run.id}
              rows={rows}
              search={search}
              matching={first?.matching ?? first?.total ?? null}
              isOld={query.isPlaceholderData}
              hasFailed={query.isFetchNextPageError}
              more={query.hasNextPage && !query.isFetchingNextPage ? () => void query.fetchNextPage() : undefined}
            />
          )
        }
      </Loaded>
    </div>
  );
}

interface ListProps {
  run: string;
  rows: readonly SampleRow[];
  search: SampleSearch;
  matching: number | null;
  /** Whether the rows are those of the filters before, while the new ones are read. */
  isOld: boolean;
  /** Whether the next page could not be read: it is asked for again only by the person. */
  hasFailed: boolean;
  more: (() => void) | undefined;
}

function List({ run, rows, search, matching, isOld, hasFailed, more }: ListProps) {
  const place = useRef<HTMLDivElement>(null);
  const [current, setCurrent] = useState(-1);
  const navigate = useNavigate();
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => place.current,
    estimateSize: () => ROW_PX,
    overscan: 8,
  });
  const shown = virtual.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (last > rows.length - AHEAD_ROWS && !hasFailed) more?.();
  }, [last, rows.length, hasFailed, more]);
  const move = (by: number) => {
    const next = Math.max(0, Math.min(rows.length - 1, current + by));
    setCurrent(next);
    virtual.scrollToIndex(next);
  };
  const open = () => {
    const row = rows[current];
    if (row) void navigate({ to: '/runs/$id/samples/$sid', params: { id: run, sid: row.id }, search });
  };
  useKeys({ j: () => move(1), k: () => move(-1), o: open });
  return (
    <section className={isOld ? 'card sample-list old' : 'card sample-list'} aria-label="Samples" aria-busy={isOld}>
      <div className="sample-row head" aria-hidden="true">
        <span className="num">#</span>
        <span>Question</span>
        <span>Answer</span>
        <span className="num">Score</span>
        <span className="num">Latency</span>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <div ref={place} className="samples" tabIndex={0} data-testid="samples">
        <ul style={{ height: virtual.getTotalSize() }}>
          {shown.map((item) => {
            const row = rows[item.index];
            return row ? (
              <li
                key={row.id}
                className={item.index === current ? 'sample-row current' : 'sample-row'}
                style={{ transform: `translateY(${item.start}px)`, height: ROW_PX }}
              >
                <Row row={row} run={run} search={search} />
              </li>
            ) : null;
          })}
        </ul>
      </div>
      <p className="sub foot" role="status">
        {count(rows.length)} of {count(matching)} loaded
        {isPlain(search) ? '' : ' that pass the filters'} · <kbd>j</kbd> <kbd>k</kbd> move, <kbd>o</kbd> opens
      </p>
      {hasFailed && more ? (
        <Button size="xs" variant="default" onClick={more}>
          Try again
        </Button>
      ) : null}
    </section>
  );
}

function Row({ row, run, search }: { row: SampleRow; run: string; search: SampleSearch }) {
  return (
    <>
      <span className="num">{row.id.split('.')[1]}</span>
      <span className="pictured">
        {row.image ? <Thumbnail run={run} sha256={row.image} /> : null}
        <Link
          className="clip"
          to="/runs/$id/samples/$sid"
          params={{ id: run, sid: row.id }}
          search={search}
          preload={false}
        >
          <bdi>{row.question ?? row.key ?? row.id}</bdi>
        </Link>
      </span>
      <span className="clip">
        <FlipBadge flip={row.flip} />
        {row.outcome === 'answered' ? (
          <bdi>{row.text}</bdi>
        ) : (
          <span className="badge bad">✕ {words(row.error_code ?? row.outcome)}</span>
        )}
      </span>
      <span className={row.is_wrong ? 'num wrong' : 'num'}>
        {row.value === null ? <span className="none">–</span> : score(row.value)}
        {row.is_wrong ? <span className="visually-hidden"> wrong</span> : null}
      </span>
      <span className="num">{milliseconds(row.latency_ms)}</span>
    </>
  );
}

/** The first image, small; its question stands beside it, so it has no text of its own. */
function Thumbnail({ run, sha256 }: { run: string; sha256: string }) {
  const [isGone, setIsGone] = useState(false);
  if (isGone) return <span className="thumbnail" />;
  return (
    <img
      className="thumbnail"
      src={`/api/v1/runs/${run}/images/${sha256}/thumbnail`}
      alt=""
      width={36}
      height={36}
      loading="lazy"
      decoding="async"
      onError={() => setIsGone(true)}
    />
  );
}
