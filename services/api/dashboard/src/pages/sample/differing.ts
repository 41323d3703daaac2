/** By what the compared answer differs from a reference: characters of short texts, words of long ones. Pure. */
import { diffChars, diffWordsWithSpace } from 'diff';

export interface Part {
  text: string;
  kind: 'same' | 'only_answer' | 'only_reference';
}

const CHARACTERS = 400;
/** Texts that differ by more than this are not worth marking, and would take seconds. */
const MAX_EDITS = 2_000;
const TIMEOUT_MS = 150;

/** Return null where the texts differ by so much that marks would not help. */
export function partsOf(answer: string, reference: string): Part[] | null {
  const isShort = answer.length <= CHARACTERS && reference.length <= CHARACTERS;
  const limits = { maxEditLength: MAX_EDITS, timeout: TIMEOUT_MS };
  const changes = isShort ? diffChars(reference, answer, limits) : diffWordsWithSpace(reference, answer, limits);
  return (
    changes?.map(({ value, added, removed }) => ({
      text: value,
      kind: added ? ('only_answer' as const) : removed ? ('only_reference' as const) : ('same' as const),
    })) ?? null
  );
}

/** The place of the reference that is nearest to the answer by what they share; the first of equals. */
export function nearest(answer: string, references: readonly string[]): number {
  let [best, bestShared] = [0, -1];
  for (const [place, reference] of references.entries()) {
    if (reference === answer) return place;
    const parts = partsOf(answer, reference);
    const same = parts?.reduce((sum, part) => sum + (part.kind === 'same' ? part.text.length : 0), 0) ?? 0;
    const shared = same / Math.max(1, answer.length, reference.length);
    if (shared > bestShared) [best, bestShared] = [place, shared];
  }
  return best;
}
