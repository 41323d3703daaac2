/** Runs as points over two columns, with their intervals as bars, and the Pareto front as a line where there is one. */
import type { Data } from 'plotly.js-basic-dist-min';
import { useMemo } from 'react';
import { Chart } from './Chart';
import { column as columnName } from './format';

export interface Plotted {
  id: string;
  name: string;
  target: string;
  x: number;
  y: number;
  xEnds?: [number, number] | null | undefined;
  yEnds?: [number, number] | null | undefined;
  isBest: boolean | null;
}

interface Props {
  points: readonly Plotted[];
  x: string;
  y: string;
  alt: string;
  /** Points of one target are joined in the order of x: how a sweep is drawn. */
  isSweep?: boolean;
  height?: number;
}

const COLOURS = ['#4c6ef5', '#e8890c', '#2b9a66', '#c92a2a', '#9c5bd1', '#0c8599', '#a07000', '#d6336c'];
const SYMBOLS = ['circle', 'diamond', 'square', 'triangle-up', 'cross', 'star', 'hexagon', 'x'];
const FULL = 60;

export function PointsChart({ points, x, y, alt, isSweep = false, height = 420 }: Props) {
  const { data, layout } = useMemo(() => {
    const targets = [...new Set(points.map((point) => point.target))].sort();
    const front = isSweep ? [] : sorted(points.filter((point) => point.isBest));
    const line: Data[] =
      front.length > 1
        ? [
            {
              type: 'scatter',
              mode: 'lines',
              name: 'Pareto front',
              x: front.map((point) => point.x),
              y: front.map((point) => point.y),
              line: { color: '#868e96', width: 1.5, dash: 'dot' },
              hoverinfo: 'skip',
            },
          ]
        : [];
    const traces = targets.map((target, no): Data => {
      const own = isSweep
        ? sorted(points.filter((point) => point.target === target))
        : points.filter((point) => point.target === target);
      const colour = COLOURS[no % COLOURS.length];
      return {
        type: 'scatter',
        mode: isSweep ? 'lines+markers' : 'markers',
        name: target,
        x: own.map((point) => point.x),
        y: own.map((point) => point.y),
        text: own.map((point) => escaped(point.name)),
        line: { color: colour },
        error_x: bars(own, 'x', points.length),
        error_y: bars(own, 'y', points.length),
        marker: {
          color: colour,
          symbol: SYMBOLS[no % SYMBOLS.length],
          size: own.map((point) => (point.isBest && !isSweep ? 13 : 9)),
          line: { width: own.map((point) => (point.isBest && !isSweep ? 2 : 0)), color: '#868e96' },
        },
        hovertemplate: `<b>%{text}</b><br>${escaped(columnName(x))}: %{x:.4g}<br>${escaped(columnName(y))}: %{y:.4g}<extra></extra>`,
      };
    });
    return {
      data: [...line, ...traces],
      layout: {
        showlegend: targets.length > 1 && targets.length <= 12,
        legend: { orientation: 'h', y: 1.02, yanchor: 'bottom' },
        xaxis: { title: { text: escaped(columnName(x)) } },
        yaxis: { title: { text: escaped(columnName(y)) } },
      },
    };
  }, [points, x, y, isSweep]);
  return <Chart data={data} layout={layout} alt={alt} height={height} />;
}

function sorted(points: readonly Plotted[]): Plotted[] {
  return [...points].sort((first, second) => first.x - second.x || first.y - second.y);
}

/** Plotly reads its own few tags in texts: a name is text. */
function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

function bars(points: readonly Plotted[], axis: 'x' | 'y', total: number): Record<string, unknown> {
  const ends = points.map((point) => (axis === 'x' ? point.xEnds : point.yEnds) ?? null);
  if (total > FULL || ends.every((known) => known === null)) return { visible: false };
  const values = points.map((point) => point[axis]);
  return {
    type: 'data',
    symmetric: false,
    array: ends.map((known, no) => (known === null ? 0 : known[1] - (values[no] ?? 0))),
    arrayminus: ends.map((known, no) => (known === null ? 0 : (values[no] ?? 0) - known[0])),
    thickness: 1,
    width: 3,
    color: '#868e96',
  };
}
