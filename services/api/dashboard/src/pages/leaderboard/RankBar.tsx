/** The interval of a rank on the scale from the first to the last rank. */
const WIDTH = 160;

interface Props {
  rank: number;
  low: number | null;
  high: number | null;
  most: number;
}

export function RankBar({ rank, low, high, most }: Props) {
  const x = (at: number) => (most > 1 ? 6 + ((at - 1) / (most - 1)) * (WIDTH - 12) : WIDTH / 2);
  return (
    <svg viewBox={`0 0 ${WIDTH} 12`} className="interval-bar" aria-hidden="true" preserveAspectRatio="none">
      <line x1={6} x2={WIDTH - 6} y1={6} y2={6} className="scale" />
      {low !== null && high !== null ? <line x1={x(low)} x2={x(high)} y1={6} y2={6} className="range" /> : null}
      <line x1={x(rank)} x2={x(rank)} y1={6} y2={6} className="point" />
    </svg>
  );
}
