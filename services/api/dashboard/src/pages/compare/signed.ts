/** A difference with its sign, so that its direction is read at once. */
import { fixed, NONE } from '../../ui/format';

export function signed(value: number | null | undefined, digits = 3): string {
  const text = fixed(value, digits);
  return text === NONE || text.startsWith('−') || Number(text) === 0 ? text.replace(/^−(0\.?0*)$/, '$1') : `+${text}`;
}
