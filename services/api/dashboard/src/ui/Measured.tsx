/** A number with its interval below it, right-aligned with tabular digits: how every measurement is shown. */
import { fixed, interval, NONE, score } from './format';

interface Props {
  value: number | null | undefined;
  low?: number | null | undefined;
  high?: number | null | undefined;
  show?: (value: number | null | undefined) => string;
  /** What stands below where there is no interval. */
  note?: string | undefined;
  isInline?: boolean;
}

export function Measured({ value, low, high, show = score, note, isInline = false }: Props) {
  const bounds = interval(low, high, show);
  const title = bounds ? `${fixed(value, 6)}, 95 % interval ${fixed(low, 6)} to ${fixed(high, 6)}` : undefined;
  const below = bounds || note;
  return (
    <span className={isInline ? 'measured inline' : 'measured'} title={title}>
      <span className={value === null || value === undefined ? 'none' : ''}>
        {value === null || value === undefined ? NONE : show(value)}
      </span>
      {below ? <small>{below}</small> : null}
    </span>
  );
}
