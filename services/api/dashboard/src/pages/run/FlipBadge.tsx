/** How an answer differs from the baseline's: a word with a mark; nothing where both are alike. */
import type { SampleRow } from '../../api/samples';

const SHOWN = {
  broke: ['bad', '✕ broke'],
  mended: ['good', '✓ mended'],
  both_wrong: ['off', 'both wrong'],
  both_right: ['off', 'both right'],
} as const;

export function FlipBadge({ flip, isWhole = false }: { flip: SampleRow['flip']; isWhole?: boolean }) {
  if (flip === null || (!isWhole && flip !== 'broke' && flip !== 'mended')) return null;
  const [tone, word] = SHOWN[flip];
  return <span className={`badge ${tone}`}>{word}</span>;
}
