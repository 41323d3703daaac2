/** Any two numbers of all runs against each other: goals, bounds, the Pareto front, and the table behind. */
import { NativeSelect, SegmentedControl } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useMemo } from 'react';
import { type Column, columnsQuery, type Goal, type Points, pointsQuery } from '../../api/listing';
import { Filters } from '../../ui/Filters';
import { column as columnName, count } from '../../ui/format';
import { Loaded } from '../../ui/Loaded';
import { Empty } from '../../ui/Notes';
import { type Plotted, PointsChart } from '../../ui/PointsChart';
import { SavedViews } from '../../ui/SavedViews';
import { SearchField } from '../../ui/SearchField';
import { useTitle } from '../../ui/useTitle';
import { defaultAxes, endsOf, goalOf, noteOf } from './axes';
import { PointsTable } from './PointsTable';
import { type ExploreSearch, explore as route } from './route';
import { Sliders } from './Sliders';
import './style.css';

export function ExplorePage() {
  useTitle('Explore');
  const columns = useQuery(columnsQuery);
  return (
    <div className="page">
      <Loaded query={columns} what="columns">
        {({ columns: all }) => <Builder columns={all.filter((column) => column.is_number)} />}
      </Loaded>
    </div>
  );
}

function Builder({ columns }: { columns: readonly Column[] }) {
  const names = useMemo(() => columns.map((column) => column.name), [columns]);
  const search = route.useSearch();
  const navigate = useNavigate({ from: '/explore' });
  const go = (change: { [Key in keyof ExploreSearch]?: ExploreSearch[Key] | undefined }) =>
    void navigate({ search: (old) => ({ ...old, ...change }) as ExploreSearch, replace: true, resetScroll: false });
  const usual = defaultAxes(names);
  const [x, y] = [search.x ?? usual.x ?? '', search.y ?? usual.y ?? ''];
  const goals = [goalOf(x, columns, search.xgoal), goalOf(y, columns, search.ygoal)];
  const known = useMemo(() => new Set(names), [names]);
  const [xEnds, yEnds] = [endsOf(x, known), endsOf(y, known)];
  const where = search.where ?? [];
  const query = useQuery(
    pointsQuery({ columns: [x, y, ...(xEnds ?? []), ...(yEnds ?? [])].filter(Boolean), goals, where, q: search.q }),
  );
  return (
    <>
      <div className="page-head">
        <h1>Explore</h1>
        <SearchField
          label="Words in name, target, task or tags"
          placeholder="Name, target, task or tag"
          value={search.q}
          change={(q) => go({ q })}
        />
        <SavedViews page="explore" />
      </div>
      <div className="explore-axes">
        <Axis
          label="Across"
          column={x}
          columns={columns}
          chosen={search.xgoal}
          change={(column, goal) => go({ x: column, xgoal: goal })}
        />
        <Axis
          label="Up"
          column={y}
          columns={columns}
          chosen={search.ygoal}
          change={(column, goal) => go({ y: column, ygoal: goal })}
        />
      </div>
      <Filters where={where} change={(changed) => go({ where: changed })} />
      <Sliders
        names={names}
        bounds={search.bounds ?? []}
        where={where}
        q={search.q}
        change={(bounds, changed) => go({ bounds, where: changed })}
      />
      <Loaded query={query} what="points">
        {(points) => <Drawn points={points} x={x} y={y} xEnds={xEnds !== null} yEnds={yEnds !== null} />}
      </Loaded>
    </>
  );
}

interface AxisProps {
  label: string;
  column: string;
  columns: readonly Column[];
  /** The end that the person has chosen as the good one. */
  chosen: Goal | undefined;
  change: (column: string, goal: Goal | undefined) => void;
}

function Axis({ label, column, columns, chosen, change }: AxisProps) {
  const note = noteOf(column, columns, chosen);
  return (
    <div className="explore-axis">
      <NativeSelect
        size="xs"
        label={label}
        value={column}
        onChange={(event) => change(event.currentTarget.value, undefined)}
        data={[...new Set([...columns.map(({ name }) => name), column])]
          .filter(Boolean)
          .map((name) => ({ value: name, label: columnName(name) }))}
      />
      <SegmentedControl
        size="xs"
        aria-label={`Which end of the axis ${label.toLowerCase()} is good`}
        value={goalOf(column, columns, chosen)}
        onChange={(value) => change(column, value === 'lower' ? 'lower' : 'higher')}
        data={[
          { value: 'higher', label: 'more is better' },
          { value: 'lower', label: 'less is better' },
        ]}
      />
      {note ? (
        <p className="sub" role="status">
          {note}
        </p>
      ) : null}
    </div>
  );
}

interface DrawnProps {
  points: Points;
  x: string;
  y: string;
  xEnds: boolean;
  yEnds: boolean;
}

function Drawn({ points, x, y, xEnds, yEnds }: DrawnProps) {
  const plotted = useMemo(() => plottedOf(points, xEnds, yEnds), [points, xEnds, yEnds]);
  const front = plotted.filter((point) => point.isBest).length;
  if (plotted.length === 0) {
    return (
      <Empty title="No run has both values">
        <p className="note-text">
          {points.points.length > 0
            ? `${count(points.points.length)} runs have one of them. Choose other axes or wider bounds.`
            : 'No run passes the filters. Choose other axes, or remove a filter.'}
        </p>
      </Empty>
    );
  }
  const alt = `${columnName(y)} over ${columnName(x)} of ${plotted.length} runs, ${front} of them on the Pareto front; the table has the numbers.`;
  return (
    <>
      <section className="card" aria-label="Figure">
        <header>
          <h2>
            {columnName(y)} over {columnName(x)}
          </h2>
          <span className="sub">
            {count(plotted.length)} runs, {count(front)} on the Pareto front
            {points.is_cut ? ' · only the newest 5 000 are shown' : ''}
          </span>
        </header>
        <div className="body">
          <PointsChart points={plotted} x={x} y={y} alt={alt} />
        </div>
      </section>
      <PointsTable points={plotted} x={x} y={y} />
    </>
  );
}

function plottedOf({ points }: Points, hasX: boolean, hasY: boolean): Plotted[] {
  return points.flatMap((point) => {
    const [x, y, ...ends] = point.values;
    if (x === null || x === undefined || y === null || y === undefined) return [];
    const pair = (at: number): [number, number] | null => {
      const [low, high] = [ends[at], ends[at + 1]];
      return low === null || low === undefined || high === null || high === undefined ? null : [low, high];
    };
    return [
      {
        id: point.id,
        name: point.name,
        target: point.target,
        x,
        y,
        xEnds: hasX ? pair(0) : null,
        yEnds: hasY ? pair(hasX ? 2 : 0) : null,
        isBest: point.is_best,
      },
    ];
  });
}
