/** The state of a run, a job or an experiment: a word with a colour and a mark, so that the colour never stands alone. */
const TONES: Record<string, 'good' | 'bad' | 'warn' | 'busy' | 'off'> = {
  SUCCEEDED: 'good',
  DONE: 'good',
  PARTIAL: 'warn',
  FAILED: 'bad',
  CANCELLED: 'off',
  RUNNING: 'busy',
  INDEXED: 'busy',
  OPEN: 'busy',
};
const MARKS = { good: '✓', bad: '✕', warn: '!', busy: '●', off: '–', wait: '○' };

interface Props {
  state: string;
  isPaused?: boolean | undefined;
  isCancelling?: boolean | undefined;
}

export function StateBadge({ state, isPaused, isCancelling }: Props) {
  const tone = isPaused || isCancelling ? 'warn' : (TONES[state] ?? 'wait');
  const word = isCancelling ? 'cancelling' : isPaused ? 'paused' : state.toLowerCase().replaceAll('_', ' ');
  return (
    <span className={`badge ${tone}`}>
      <span aria-hidden="true">{MARKS[tone]}</span> <span className="badge-word">{word}</span>
    </span>
  );
}
