/** Long texts in blocks, so that a browser lays out only those that are seen. Pure. */

export const BLOCK_CHARACTERS = 4_000;
export const CUT_CHARACTERS = 6_000;
export const CUT_LINES = 60;

/** The beginning of a text that is shown before somebody asks for all of it. */
export function beginning(text: string): string {
  const lines = text.slice(0, CUT_CHARACTERS).split('\n', CUT_LINES + 1);
  const cut = lines.slice(0, CUT_LINES).join('\n');
  // Half of a pair of surrogates would be shown as a replacement character.
  return cut.length < text.length ? cut.replace(/[\uD800-\uDBFF]$/, '') : cut;
}

/** Divide a text at line breaks; a line that is longer than a block is divided where the block ends. */
export function blocksOf(text: string): string[] {
  const blocks: string[] = [];
  let start = 0;
  while (start < text.length) {
    let end = Math.min(text.length, start + BLOCK_CHARACTERS);
    if (end < text.length) {
      const line = text.lastIndexOf('\n', end - 1);
      if (line > start) end = line + 1;
      else if (/[\uD800-\uDBFF]/.test(text.charAt(end - 1))) end -= 1;
    }
    blocks.push(text.slice(start, end));
    start = end;
  }
  return blocks;
}
