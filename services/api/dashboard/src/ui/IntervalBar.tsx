/** A value and its interval on the scale from 0 to 1; empty for values beyond it. */
interface Props {
  value: number | null;
  low: number | null;
  high: number | null;
}

const WIDTH = 160;
const HEIGHT = 12;

export function IntervalBar({ value, low, high }: Props) {
  if (value === null || value < 0 || value > 1) return null;
  const x = (at: number) => 4 + Math.max(0, Math.min(1, at)) * (WIDTH - 8);
  return (
    <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} className="interval-bar" aria-hidden="true" preserveAspectRatio="none">
      <line x1={x(0)} x2={x(1)} y1={6} y2={6} className="scale" />
      {low !== null && high !== null ? <line x1={x(low)} x2={x(high)} y1={6} y2={6} className="range" /> : null}
      <line x1={x(value)} x2={x(value)} y1={6} y2={6} className="point" />
    </svg>
  );
}
