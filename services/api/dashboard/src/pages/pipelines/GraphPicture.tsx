/** A pipeline as a picture: the question, its stages with their models, and the answer; a click leads to a stage. */
import { Scroll } from '../../ui/Scroll';
import { type GraphStage, graphOf, HEIGHT, inWords, type Node, WIDTH } from './graph';

const END_WIDTH = 92;

interface Props {
  stages: readonly GraphStage[];
  /** Called with the position of the stage that was chosen. */
  choose?: (at: number) => void;
}

export function GraphPicture({ stages, choose }: Props) {
  if (stages.length === 0) return null;
  const { nodes, edges, width, height } = graphOf(stages);
  return (
    <Scroll label="Picture of the pipeline">
      <svg
        className="pipeline-graph"
        width={width + 4}
        height={height + 4}
        viewBox={`-2 -2 ${width + 4} ${height + 4}`}
        role="img"
        aria-label={inWords(stages)}
      >
        <title>{inWords(stages)}</title>
        <defs>
          <marker
            id="pipeline-arrow"
            viewBox="0 0 8 8"
            refX="7"
            refY="4"
            markerWidth="7"
            markerHeight="7"
            orient="auto"
          >
            <path d="M0 0 L8 4 L0 8 z" className="arrow" />
          </marker>
        </defs>
        {edges.map(({ from, to, isWrong }) => {
          const [x1, y1] = [from.x + widthOf(from), from.y + HEIGHT / 2];
          const [x2, y2] = [to.x, to.y + HEIGHT / 2];
          const bend = Math.max(24, Math.abs(x2 - x1) / 2);
          return (
            <path
              key={`${from.kind} ${from.id} ${to.kind} ${to.id}`}
              className={isWrong ? 'edge wrong-edge' : 'edge'}
              d={`M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2 - 2} ${y2}`}
              markerEnd="url(#pipeline-arrow)"
            />
          );
        })}
        {nodes.map((node, no) => (
          // biome-ignore lint/a11y/noStaticElementInteractions: a short way for the mouse; each stage is in the list below
          <g
            key={`${node.kind} ${node.id} ${node.x} ${node.y}`}
            transform={`translate(${node.x} ${node.y})`}
            className={`node ${node.kind} ${node.isWrong ? 'wrong-node' : ''} ${choose && node.kind === 'stage' ? 'chosen' : ''}`}
            onClick={() => node.kind === 'stage' && choose?.(no - 1)}
          >
            <rect width={widthOf(node)} height={HEIGHT} rx={8} />
            <text x={widthOf(node) / 2} y={node.kind === 'stage' ? 20 : HEIGHT / 2 + 4} textAnchor="middle">
              {cut(node.id || 'without id', 22)}
            </text>
            {node.kind === 'stage' ? (
              <>
                <text className="small" x={WIDTH / 2} y={38} textAnchor="middle">
                  {modelsOf(node)}
                </text>
                <text className="small" x={WIDTH / 2} y={54} textAnchor="middle">
                  {node.models.length > 1 ? cut(node.aggregation ?? '', 26) : ''}
                </text>
              </>
            ) : null}
          </g>
        ))}
      </svg>
    </Scroll>
  );
}

function widthOf({ kind }: Node): number {
  return kind === 'stage' ? WIDTH : END_WIDTH;
}

function modelsOf({ models }: Node): string {
  const [only] = models;
  if (only === undefined) return 'no model yet';
  return models.length === 1 ? cut(only, 26) : `${models.length} models`;
}

function cut(text: string, length: number): string {
  const letters = [...text];
  return letters.length > length ? `${letters.slice(0, length - 1).join('')}…` : text;
}
