/** The question before runs are steered: which, and what it means for them. */
import { Button } from '@mantine/core';
import { type Steering, useSteering } from '../api/actions';

const MAX_NAMED = 8;

export const LABELS: Readonly<Record<Steering, string>> = {
  pause: 'Pause',
  resume: 'Resume',
  cancel: 'Cancel',
  rerun: 'Run again',
};
const MEANINGS: Readonly<Record<Steering, string>> = {
  pause: 'What runs is finished; nothing more of them is begun until they are resumed.',
  resume: 'They go on where they were paused.',
  cancel: 'They end; what they have answered is kept. A cancelled run cannot go on, only be run again.',
  rerun: 'A new run of each is submitted, which asks only what is new, changed or has failed.',
};

interface Props {
  steering: Steering;
  runs: readonly { id: string; name: string }[];
  close: () => void;
  /** Called with the ids of the runs for which it was refused. */
  done: (refused: readonly string[]) => void;
}

export function SteeringQuestion({ steering, runs, close, done }: Props) {
  const steered = useSteering();
  const [them, asTheyAre] = runs.length === 1 ? ['it', 'it as it is'] : ['them', 'them as they are'];
  const isFinal = steering === 'cancel';
  return (
    <div className="stack">
      <p>
        <strong>{runs.length === 1 ? 'One run' : `${runs.length} runs`}</strong>
      </p>
      <ul className="sub bulk-names">
        {runs.slice(0, MAX_NAMED).map((run) => (
          <li key={run.id}>
            <bdi>{run.name}</bdi>
          </li>
        ))}
        {runs.length > MAX_NAMED ? <li>and {runs.length - MAX_NAMED} more</li> : null}
      </ul>
      <p className="sub">{MEANINGS[steering]}</p>
      <div className="filters">
        <Button
          size="xs"
          loading={steered.isPending}
          data-autofocus={isFinal ? undefined : true}
          onClick={() =>
            steered.mutate(
              { steering, runs },
              {
                onSuccess: ({ refused }) => {
                  close();
                  done(refused);
                },
              },
            )
          }
        >
          {steering === 'rerun' ? `Run ${them} again` : `${LABELS[steering]} ${them}`}
        </Button>
        <Button size="xs" variant="default" data-autofocus={isFinal ? true : undefined} onClick={close}>
          Leave {asTheyAre}
        </Button>
      </div>
    </div>
  );
}
