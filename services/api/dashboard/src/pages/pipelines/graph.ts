/** The picture of a pipeline: stages in columns by how many stages stand before them, and the edges between. Pure. */

export interface GraphStage {
  id: string;
  inputs: readonly string[];
  models: readonly string[];
  /** How the answers of several models become one. */
  aggregation?: string;
  isWrong?: boolean;
}

export interface Node extends GraphStage {
  x: number;
  y: number;
  kind: 'question' | 'stage' | 'answer';
}

export interface Edge {
  from: Node;
  to: Node;
  /** Whether it leads to a stage that stands before or at its source, which no pipeline can do. */
  isWrong: boolean;
}

export interface Graph {
  nodes: Node[];
  edges: Edge[];
  width: number;
  height: number;
}

export const WIDTH = 168;
export const HEIGHT = 64;
const GAP_X = 46;
const GAP_Y = 18;
const ENDS = 92;

/** Place the stages; an input that no stage has is left out, and one that comes later is marked. */
export function graphOf(stages: readonly GraphStage[]): Graph {
  const at = new Map(stages.map(({ id }, no) => [id, no]));
  const columns: number[] = [];
  for (const [no, stage] of stages.entries()) {
    const before = stage.inputs.map((input) => at.get(input) ?? no).filter((other) => other < no);
    columns.push(Math.max(-1, ...before.map((other) => columns[other] ?? 0)) + 1);
  }
  const rows = new Map<number, number>();
  const last = Math.max(0, ...columns);
  const placed = stages.map((stage, no): Node => {
    const column = columns[no] ?? 0;
    const row = rows.get(column) ?? 0;
    rows.set(column, row + 1);
    return { ...stage, kind: 'stage', x: ENDS + GAP_X + column * (WIDTH + GAP_X), y: row * (HEIGHT + GAP_Y) };
  });
  const height = Math.max(1, ...rows.values()) * (HEIGHT + GAP_Y) - GAP_Y;
  for (const node of placed) {
    const column = columns[placed.indexOf(node)] ?? 0;
    node.y += (height - (rows.get(column) ?? 1) * (HEIGHT + GAP_Y) + GAP_Y) / 2;
  }
  const middle = (height - HEIGHT) / 2;
  const end = (kind: 'question' | 'answer', x: number): Node => ({
    id: kind,
    kind,
    inputs: [],
    models: [],
    x,
    y: middle,
  });
  const question = end('question', 0);
  const answer = end('answer', ENDS + GAP_X + (last + 1) * (WIDTH + GAP_X));
  const edges = placed.flatMap((to, no): Edge[] => {
    const sources = to.inputs.flatMap((input) => {
      const source = at.get(input);
      const from = source === undefined ? undefined : placed[source];
      return from === undefined || source === undefined ? [] : [{ from, to, isWrong: source >= no }];
    });
    return to.inputs.length === 0 ? [{ from: question, to, isWrong: false }] : sources;
  });
  const final = placed.at(-1);
  if (final) edges.push({ from: final, to: answer, isWrong: false });
  return { nodes: [question, ...placed, answer], edges, width: answer.x + ENDS, height };
}

/** The stage in words, for those who do not see the picture. */
export function inWords(stages: readonly GraphStage[]): string {
  const sentences = stages.map(({ id, inputs, models }) => {
    const from = inputs.length > 0 ? inputs.join(' and ') : 'the question';
    return `${id} gets ${from} and asks ${models.join(', ') || 'no model yet'}`;
  });
  return `${sentences.join('; ')}. The answer is that of ${stages.at(-1)?.id ?? 'no stage'}.`;
}
