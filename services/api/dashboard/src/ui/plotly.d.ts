/** The part of Plotly's interface that the dashboard uses; the bundled package has no types of its own. */
declare module 'plotly.js-basic-dist-min' {
  export type Data = Record<string, unknown> & { type: 'scatter' | 'bar' };
  export type Layout = Record<string, unknown> & {
    xaxis: Record<string, unknown>;
    yaxis: Record<string, unknown>;
  };
  interface Plotly {
    react(
      element: HTMLElement,
      data: Data[],
      layout: Partial<Layout>,
      config: Record<string, unknown>,
    ): Promise<unknown>;
    purge(element: HTMLElement): void;
    redraw(element: HTMLElement): Promise<unknown>;
    Plots: { resize(element: HTMLElement): Promise<unknown> };
  }
  const plotly: Plotly;
  export default plotly;
}
