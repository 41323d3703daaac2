/** Ask before the fleet is changed; a drain needs its reason, which everybody who waits for it reads. */
import { Button, Modal, TextInput } from '@mantine/core';
import { useState } from 'react';
import { Problem } from '../../ui/Notes';
import { type Change, type Scope, useFleetChange } from './queries';

export type Asked =
  | { kind: 'drain' | 'resume'; scope: Scope; name: string }
  | { kind: 'release'; uuid: string; name: string };

const TITLES = { drain: 'Drain', resume: 'Resume', release: 'Release from quarantine' } as const;
const MEANINGS = {
  drain: 'It finishes what runs and gets nothing new until it is resumed.',
  resume: 'It gets jobs again.',
  release: 'It gets jobs again. Release it when what broke it is mended: it goes back into quarantine if it is not.',
} as const;

export function Confirm({ asked, close }: { asked: Asked | undefined; close: () => void }) {
  return (
    <Modal
      opened={asked !== undefined}
      onClose={close}
      title={asked ? TITLES[asked.kind] : ''}
      size="sm"
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      {asked ? <Form key={`${asked.kind} ${asked.name}`} asked={asked} close={close} /> : null}
    </Modal>
  );
}

function Form({ asked, close }: { asked: Asked; close: () => void }) {
  const change = useFleetChange();
  const [reason, setReason] = useState('');
  const isDrain = asked.kind === 'drain';
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        change.mutate(changeOf(asked, reason.trim()), { onSuccess: close });
      }}
    >
      <p>
        <strong>
          <bdi>{asked.name}</bdi>
        </strong>
        {'scope' in asked ? ` (${asked.scope})` : ''}
      </p>
      <p className="sub">{MEANINGS[asked.kind]}</p>
      {isDrain ? (
        <TextInput
          label="Reason"
          description="Shown with all runs that wait for it."
          value={reason}
          onChange={(event) => setReason(event.currentTarget.value)}
          maxLength={200}
          data-autofocus
          required
        />
      ) : null}
      {change.error ? <Problem error={change.error} /> : null}
      <div className="filters">
        <Button type="submit" size="xs" loading={change.isPending} disabled={isDrain && reason.trim() === ''}>
          {TITLES[asked.kind]}
        </Button>
        <Button size="xs" variant="default" onClick={close}>
          Leave it as it is
        </Button>
      </div>
    </form>
  );
}

function changeOf(asked: Asked, reason: string): Change {
  switch (asked.kind) {
    case 'drain':
      return { kind: 'drain', scope: asked.scope, name: asked.name, reason };
    case 'resume':
      return { kind: 'resume', scope: asked.scope, name: asked.name };
    case 'release':
      return { kind: 'release', uuid: asked.uuid };
  }
}
