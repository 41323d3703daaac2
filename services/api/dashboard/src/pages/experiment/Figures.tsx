/** The runs of an experiment as points: the Pareto front of quality and speed, and what a number of the spec changes. */
import { NativeSelect } from '@mantine/core';
import { queryOptions, useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { api, body } from '../../api/client';
import { type Column, columnsQuery, type Points, pointsQuery } from '../../api/listing';
import { column as columnName, significant } from '../../ui/format';
import { Loaded } from '../../ui/Loaded';
import { type Plotted, PointsChart } from '../../ui/PointsChart';
import { Scroll } from '../../ui/Scroll';
import { directionOf, endsOf } from '../explore/axes';
import { sweptOf } from './Means';
import { experiment as route } from './route';

const SPEEDS = [
  'latency_p50_ms',
  'latency_p99_ms',
  'ttft_p50_ms',
  'output_tokens_per_s',
  'peak_memory_bytes',
  'cost_total',
];

export const axesQuery = (id: string) =>
  queryOptions({
    queryKey: ['experiment', id, 'axes'],
    queryFn: ({ signal }) =>
      body(api.GET('/api/v1/experiments/{experiment_id}/axes', { params: { path: { experiment_id: id } }, signal })),
    staleTime: 60_000,
  });

export function Figures({ id }: { id: string }) {
  const columns = useQuery(columnsQuery);
  return (
    <Loaded query={columns} what="the figures">
      {({ columns: all }) => <Drawn id={id} known={all.filter(({ is_number }) => is_number)} />}
    </Loaded>
  );
}

function Drawn({ id, known }: { id: string; known: readonly Column[] }) {
  const axes = useQuery(axesQuery(id));
  const names = known.map(({ name }) => name);
  const qualities = names.filter((name) => /^metrics\.[^.]+$/.test(name));
  const speeds = SPEEDS.filter((name) => names.includes(name));
  return (
    <div className="grid wide">
      <Figure id={id} title="Pareto" xs={speeds} ys={qualities} columns={known} />
      <Loaded query={axes} what="what the runs differ in">
        {(found) => {
          const swept = sweptOf(found.axes);
          return swept.length > 0 ? (
            <Figure id={id} title="Sweep" xs={swept} ys={[...speeds, ...qualities]} columns={known} isSweep />
          ) : null;
        }}
      </Loaded>
    </div>
  );
}

interface Props {
  id: string;
  title: 'Pareto' | 'Sweep';
  xs: readonly string[];
  ys: readonly string[];
  columns: readonly Column[];
  isSweep?: boolean;
}

function Figure({ id, title, xs, ys, columns, isSweep = false }: Props) {
  const search = route.useSearch();
  const navigate = useNavigate({ from: '/experiments/$id' });
  const [xKey, yKey] = isSweep ? (['axis', 'effect'] as const) : (['speed', 'quality'] as const);
  const [x, y] = [search[xKey] ?? xs[0] ?? '', search[yKey] ?? ys[0] ?? ''];
  const ends = endsOf(y, new Set(columns.map(({ name }) => name)));
  const directions = [directionOf(x, columns), directionOf(y, columns)].filter((direction) => direction !== null);
  const hasFront = !isSweep && directions.length === 2;
  const where = [`experiment_id=${id}`];
  const query = useQuery(
    pointsQuery({
      columns: x && y ? [x, y, ...(ends ?? [])] : [],
      goals: hasFront ? directions : [],
      where,
    }),
  );
  const choice = (key: typeof xKey | typeof yKey, label: string, value: string, all: readonly string[]) => (
    <NativeSelect
      size="xs"
      aria-label={`${title}: ${label}`}
      value={value}
      onChange={(event) => {
        const chosen = event.currentTarget.value;
        void navigate({ search: (old) => ({ ...old, [key]: chosen }), replace: true });
      }}
      data={[...new Set([...all, value])].filter(Boolean).map((name) => ({ value: name, label: columnName(name) }))}
    />
  );
  return (
    <section className="card" aria-label={title}>
      <header className="figure-head">
        <h2>{title}</h2>
        {choice(yKey, 'up', y, ys)}
        <span className="sub">over</span>
        {choice(xKey, 'across', x, xs)}
        {isSweep ? null : (
          <Link to="/explore" search={{ x, y, where }} className="end">
            Explore
          </Link>
        )}
      </header>
      <div className="body">
        {x && y ? (
          <Loaded query={query} what="points">
            {(found) => (
              <Chart
                points={plotted(found, isSweep)}
                x={x}
                y={y}
                title={title}
                isSweep={isSweep}
                isMarked={isSweep || hasFront}
              />
            )}
          </Loaded>
        ) : (
          <NoPoint />
        )}
      </div>
    </section>
  );
}

function NoPoint() {
  return <p className="sub">No run of the experiment has both values yet.</p>;
}

function plotted(found: Points, isSweep: boolean): Plotted[] {
  return found.points.flatMap((point): Plotted[] => {
    const [across, up, low, high] = point.values;
    if (typeof across !== 'number' || typeof up !== 'number') return [];
    const hasEnds = typeof low === 'number' && typeof high === 'number';
    return [
      {
        id: point.id,
        name: point.name,
        target: isSweep ? `${point.target} · ${point.task}` : point.target,
        x: across,
        y: up,
        yEnds: hasEnds ? [low, high] : null,
        isBest: point.is_best,
      },
    ];
  });
}

interface ShownProps {
  points: readonly Plotted[];
  x: string;
  y: string;
  title: string;
}

function Chart({ points, x, y, title, isSweep, isMarked }: ShownProps & { isSweep: boolean; isMarked: boolean }) {
  if (points.length === 0) return <NoPoint />;
  return (
    <>
      {isMarked ? null : (
        <p className="sub">No front is marked: nothing says which end of both columns is good. Choose it in Explore.</p>
      )}
      <PointsChart
        points={points}
        x={x}
        y={y}
        isSweep={isSweep}
        height={300}
        alt={`${columnName(y)} over ${columnName(x)} of ${points.length} runs; the table below has the numbers.`}
      />
      <Numbers points={points} x={x} y={y} title={title} />
    </>
  );
}

function Numbers({ points, x, y, title }: ShownProps) {
  return (
    <details>
      <summary className="sub">Numbers</summary>
      <Scroll label={`Table of the figure ${title}`}>
        <table className="data">
          <thead>
            <tr>
              <th scope="col">Run</th>
              <th scope="col" className="num">
                {columnName(x)}
              </th>
              <th scope="col" className="num">
                {columnName(y)}
              </th>
              <th scope="col">Front</th>
            </tr>
          </thead>
          <tbody>
            {points.map((point) => (
              <tr key={point.id}>
                <th scope="row">
                  <Link to="/runs/$id" params={{ id: point.id }}>
                    <bdi>{point.name}</bdi>
                  </Link>
                </th>
                <td className="num">{significant(point.x)}</td>
                <td className="num">{significant(point.y)}</td>
                <td>{point.isBest ? '✓' : ''}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </details>
  );
}
