/** One measure of a run's devices over time: means as lines, maxima as dots where they are known. */
import { useMemo } from 'react';
import { Chart } from '../../ui/Chart';
import type { Strip } from './strips';

const STRIP_PX = 132;
const COLORS: Record<string, string> = { accelerator: '#4c6ef5', engine: '#2b9a66', machine: '#e8890c' };

export function StripChart({ strip, seconds: width }: { strip: Strip; seconds: number }) {
  const { data, layout } = useMemo(
    () => ({
      data: strip.lines.flatMap((line, no) => {
        const color = COLORS[line.what] ?? '#7b5cd6';
        const isFirst = strip.lines.findIndex(({ what }) => what === line.what) === no;
        return [
          {
            type: 'scatter' as const,
            mode: 'lines',
            name: line.what,
            legendgroup: line.what,
            showlegend: isFirst,
            x: line.at_s,
            y: line.mean,
            customdata: line.max ?? undefined,
            line: { color, width: 1.6 },
            hovertemplate: line.max
              ? `%{x:.1f} s: mean %{y:.4~g} ${strip.unit}, max %{customdata:.4~g} ${strip.unit}<extra>${line.name}</extra>`
              : `%{x:.0f} s: %{y:.4~g} ${strip.unit}<extra>${line.name}</extra>`,
          },
          ...(line.max === null
            ? []
            : [
                {
                  type: 'scatter' as const,
                  mode: 'lines',
                  legendgroup: line.what,
                  showlegend: false,
                  x: line.at_s,
                  y: line.max,
                  line: { color, width: 0.8, dash: 'dot' },
                  hoverinfo: 'skip',
                },
              ]),
        ];
      }),
      layout: {
        margin: { l: 58, r: 8, t: 4, b: 22 },
        hovermode: 'x',
        showlegend: true,
        legend: { orientation: 'h', x: 1, xanchor: 'right', y: 1.25 },
        xaxis: { range: [0, width], fixedrange: true, ticksuffix: ' s' },
        yaxis: { rangemode: 'tozero', title: { text: strip.unit }, fixedrange: true, nticks: 4 },
      },
    }),
    [strip, width],
  );
  return (
    <div className="strip">
      <h3>{strip.title}</h3>
      <Chart
        // biome-ignore lint/suspicious/noExplicitAny: Plotly's own types lack hoverinfo beside customdata
        data={data as any}
        // biome-ignore lint/suspicious/noExplicitAny: as above
        layout={layout as any}
        height={STRIP_PX}
        alt={`${strip.title} over time`}
      />
    </div>
  );
}
