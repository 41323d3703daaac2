/** The boxes on a page that a dataset states in its metadata, in pixels of the image. Pure. */

export interface Box {
  name: string;
  left: number;
  top: number;
  width: number;
  height: number;
  /** Whether it holds the answer. */
  isAnswer: boolean;
}

const MAX_BOXES = 2_000;

/** Read `boxes` (a mapping or a list of left, top, right, bottom) and `answer_bbox`; what is no box is left out. */
export function boxesOf(metadata: Readonly<Record<string, unknown>>): Box[] {
  const { boxes, answer_bbox: answer } = metadata;
  const named = boxes !== null && typeof boxes === 'object' ? Object.entries(boxes).slice(0, MAX_BOXES) : [];
  const all = named.map(([name, corners]) => box(name, corners, false));
  return [...all, box('answer', answer, true)].filter((found) => found !== null);
}

function box(name: string, corners: unknown, isAnswer: boolean): Box | null {
  if (!Array.isArray(corners) || corners.length !== 4) return null;
  const [left, top, right, bottom] = corners.map(Number) as [number, number, number, number];
  const [width, height] = [right - left, bottom - top];
  if (![left, top, width, height].every(Number.isFinite) || width <= 0 || height <= 0) return null;
  return { name, left, top, width, height, isAnswer };
}
