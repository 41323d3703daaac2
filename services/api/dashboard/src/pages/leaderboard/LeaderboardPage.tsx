/** The targets of a task by a metric: the newest run of each, its value with its interval, and the interval of its rank. */
import { Checkbox, NativeSelect } from '@mantine/core';
import { keepPreviousData, queryOptions, useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { api, body, type Schemas } from '../../api/client';
import { equals } from '../../api/filters';
import { columnsQuery } from '../../api/listing';
import { usePreferences } from '../../app/preferences';
import { Filters } from '../../ui/Filters';
import { bytes, count, milliseconds, words } from '../../ui/format';
import { Loaded } from '../../ui/Loaded';
import { Measured } from '../../ui/Measured';
import { Empty } from '../../ui/Notes';
import { Scroll } from '../../ui/Scroll';
import { useTitle } from '../../ui/useTitle';
import { idsOf, toggled } from '../runs/chosen';
import { metricsOf } from './metrics';
import { RankBar } from './RankBar';
import { type LeaderboardSearch, leaderboard as route } from './route';

type Leaderboard = Schemas['Leaderboard'];
type Entry = Leaderboard['entries'][number];

const boardQuery = (task: string | undefined, metric: string | undefined, where: readonly string[]) =>
  queryOptions({
    queryKey: ['runs', 'leaderboard', task, metric, where],
    queryFn: ({ signal }) =>
      body(
        api.GET('/api/v1/leaderboard', {
          params: { query: { task: task ?? '', where: [...where], ...(metric && { metric }) } },
          signal,
        }),
      ),
    enabled: task !== undefined,
    placeholderData: keepPreviousData,
    staleTime: 10_000,
  });

export function LeaderboardPage() {
  useTitle('Leaderboard');
  const columns = useQuery(columnsQuery);
  return (
    <div className="page">
      <Loaded query={columns} what="tasks">
        {({ tasks = {}, columns: known }) =>
          Object.keys(tasks).length === 0 ? (
            <>
              <h1>Leaderboard</h1>
              <Empty title="No run has been submitted">
                <p className="note-text">The targets of a task are ranked once their runs have succeeded.</p>
              </Empty>
            </>
          ) : (
            <Board tasks={tasks} known={metricsOf(known)} />
          )
        }
      </Loaded>
    </div>
  );
}

interface BoardProps {
  tasks: Readonly<Record<string, number>>;
  /** The metrics of all tasks, to choose from until there is a leaderboard, and where none can be made. */
  known: readonly string[];
}

function Board({ tasks, known }: BoardProps) {
  const search = route.useSearch();
  const navigate = useNavigate({ from: '/leaderboard' });
  const preferred = usePreferences().task;
  const task = search.task ?? (preferred in tasks ? preferred : Object.keys(tasks)[0]);
  const query = useQuery(boardQuery(task, search.metric, search.where ?? []));
  const go = (change: { [Key in keyof LeaderboardSearch]?: LeaderboardSearch[Key] | undefined }) =>
    void navigate({ search: (old) => ({ ...old, ...change }) as LeaderboardSearch, replace: true, resetScroll: false });
  const metrics = query.data?.metrics ?? known;
  return (
    <>
      <div className="page-head">
        <h1>Leaderboard</h1>
        <NativeSelect
          size="xs"
          aria-label="Task"
          value={task}
          onChange={(event) => void navigate({ search: { task: event.currentTarget.value } })}
          data={[...new Set([...Object.keys(tasks), ...(task ? [task] : [])])].map((name) => ({
            value: name,
            label: `${name} (${count(tasks[name] ?? 0)})`,
          }))}
        />
        <NativeSelect
          size="xs"
          aria-label="Metric"
          disabled={metrics.length === 0}
          value={search.metric ?? query.data?.metric ?? ''}
          onChange={(event) => go({ metric: event.currentTarget.value })}
          data={[...new Set([...metrics, search.metric ?? query.data?.metric ?? ''])].map((name) => ({
            value: name,
            label: words(name) || 'metric …',
          }))}
        />
      </div>
      <Filters where={search.where ?? []} change={(where) => go({ where })} />
      <Loaded query={query} what="the leaderboard">
        {(board) => <Ranks board={board} chosen={idsOf(search.chosen)} choose={(chosen) => go({ chosen })} />}
      </Loaded>
    </>
  );
}

interface RanksProps {
  board: Leaderboard;
  chosen: readonly string[];
  choose: (chosen: string | undefined) => void;
}

function Ranks({ board, chosen, choose }: RanksProps) {
  const most = Math.max(board.entries.length, ...board.entries.map((entry) => entry.rank_high ?? 0));
  const inOrder = board.entries.filter((entry) => chosen.includes(entry.run_id)).map((entry) => entry.run_id);
  return (
    <section className="card" aria-label="Ranks">
      <header>
        <h2>{words(board.metric)}</h2>
        <span className="sub">
          {board.direction} is better
          {board.ranked_on === null ? '' : ` · ranks on the ${count(board.ranked_on)} answers that all have given`}
        </span>
        <span className="end">
          {inOrder.length > 1 ? (
            <Link to="/compare" search={{ runs: inOrder.join(',') }}>
              Compare {inOrder.length}
            </Link>
          ) : (
            <span className="sub">choose two to compare them</span>
          )}
        </span>
      </header>
      <Scroll label="Table of ranks">
        <table className="data">
          <thead>
            <tr>
              <th scope="col">
                <span className="visually-hidden">Choose</span>
              </th>
              <th scope="col" className="num">
                Rank
              </th>
              <th scope="col" className="from-sm">
                95 % of its ranks
              </th>
              <th scope="col">Target</th>
              <th scope="col" className="num">
                {words(board.metric)}
              </th>
              <th scope="col" className="num from-md">
                Answers
              </th>
              <th scope="col" className="num from-md">
                Latency p50
              </th>
              <th scope="col" className="num from-lg">
                Peak memory
              </th>
            </tr>
          </thead>
          <tbody>
            {board.entries.map((entry) => (
              <Line
                key={entry.run_id}
                entry={entry}
                most={most}
                isChosen={chosen.includes(entry.run_id)}
                toggle={() => choose(toggled(chosen, entry.run_id))}
              />
            ))}
          </tbody>
        </table>
      </Scroll>
      {board.note ? <p className="foot sub">{board.note}</p> : null}
      <p className="foot sub">
        <Link
          to="/runs"
          search={{
            where: [equals('task', board.task)],
            order: `${board.direction === 'higher' ? '-' : ''}metrics.${board.metric}`,
          }}
        >
          All runs of this task
        </Link>
      </p>
    </section>
  );
}

interface LineProps {
  entry: Entry;
  most: number;
  isChosen: boolean;
  toggle: () => void;
}

function Line({ entry, most, isChosen, toggle }: LineProps) {
  return (
    <tr>
      <td>
        <Checkbox size="xs" checked={isChosen} onChange={toggle} aria-label={`Choose ${entry.name}`} />
      </td>
      <td className="num">
        <span className="measured">
          <strong>{entry.rank}</strong>
          {entry.rank_low === null ? null : (
            <small>
              {entry.rank_low} – {entry.rank_high}
            </small>
          )}
        </span>
      </td>
      <td className="bar-cell from-sm">
        <RankBar rank={entry.rank} low={entry.rank_low} high={entry.rank_high} most={most} />
      </td>
      <th scope="row">
        <Link to="/runs/$id" params={{ id: entry.run_id }} className="strong">
          <bdi>{entry.target}</bdi>
        </Link>
        <div className="sub">
          <bdi>{entry.name}</bdi> · <bdi>{entry.dataset}</bdi>
        </div>
      </th>
      <td className="num">
        <Measured value={entry.value} low={entry.low} high={entry.high} />
      </td>
      <td className="num from-md">{count(entry.n)}</td>
      <td className="num from-md">{milliseconds(entry.latency_p50_ms)}</td>
      <td className="num from-lg">{bytes(entry.peak_memory_bytes)}</td>
    </tr>
  );
}
