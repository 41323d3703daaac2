/** A figure drawn by Plotly, which is loaded with the first one; nothing of it is ever sent anywhere. */
import { useComputedColorScheme, useMantineColorScheme } from '@mantine/core';
import type { Data, Layout } from 'plotly.js-basic-dist-min';
import { useEffect, useRef, useState } from 'react';
import { Problem } from './Notes';

const CONFIG = {
  displaylogo: false,
  displayModeBar: false,
  plotlyServerURL: '',
  showSendToCloud: false,
};

interface Props {
  data: Data[];
  layout: Partial<Layout>;
  /** What the figure shows, for those who do not see it; a table with its numbers stands beside it. */
  alt: string;
  height?: number;
}

export function Chart({ data, layout, alt, height = 240 }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const [error, setError] = useState<unknown>(null);
  const scheme = useComputedColorScheme('light');
  const { colorScheme } = useMantineColorScheme();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the colours are read from the page when its scheme changes
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    let isGone = false;
    import('plotly.js-basic-dist-min')
      .then(({ default: plotly }) =>
        isGone ? undefined : plotly.react(element, data, themed(element, layout, height), CONFIG),
      )
      .catch(setError);
    return () => {
      isGone = true;
    };
  }, [data, layout, height, scheme, colorScheme]);
  useEffect(() => {
    const element = place.current;
    return () => {
      if (element) void import('plotly.js-basic-dist-min').then(({ default: plotly }) => plotly.purge(element));
    };
  }, []);
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    // By its own width, which changes after the window's where the navigation comes or goes.
    const observer = new ResizeObserver(() => {
      if (element.querySelector('.main-svg') === null || element.offsetParent === null) return;
      void import('plotly.js-basic-dist-min')
        // Drawn again: a legend that has more or fewer lines than before stays where it was, over the points.
        .then(({ default: plotly }) => plotly.Plots.resize(element).then(() => plotly.redraw(element)))
        .catch(setError);
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  if (error) return <Problem error={error} />;
  return <div ref={place} role="img" aria-label={alt} style={{ height }} className="chart" />;
}

function themed(element: HTMLElement, layout: Partial<Layout>, height: number): Partial<Layout> {
  const style = getComputedStyle(element);
  const [ink, line] = [style.getPropertyValue('--ink-2'), style.getPropertyValue('--line')];
  const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true };
  return {
    height,
    margin: { l: 48, r: 12, t: 8, b: 36 },
    paper_bgcolor: 'rgba(0,0,0,0)',
    plot_bgcolor: 'rgba(0,0,0,0)',
    font: { family: style.fontFamily, size: 12, color: ink },
    showlegend: false,
    hovermode: 'closest',
    ...layout,
    xaxis: { ...axis, ...layout.xaxis },
    yaxis: { ...axis, ...layout.yaxis },
  };
}
