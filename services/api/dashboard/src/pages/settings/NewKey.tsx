/** Make a key: for whom, what it may do and until when; then show its secret, once. */
import { Button, Checkbox, CopyButton, NativeSelect, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { sessionQuery } from '../../api/queries';
import { Problem } from '../../ui/Notes';
import { useNewKey } from './queries';

const DAY_S = 86_400;
const LIVES = [
  { value: String(DAY_S), label: 'in a day' },
  { value: String(30 * DAY_S), label: 'in 30 days' },
  { value: String(90 * DAY_S), label: 'in 90 days' },
  { value: String(365 * DAY_S), label: 'in a year' },
  { value: '', label: 'never' },
];
const MEANINGS: Readonly<Record<string, string>> = {
  'artifact:read': 'read reports and files',
  'key:read': 'list keys',
  'key:write': 'make and revoke keys',
  'metrics:read': 'read /metrics',
  'registry:read': 'read the registry',
  'registry:write': 'change the registry',
  'run:read': 'read runs and answers',
  'run:write': 'submit and steer runs',
  'worker:read': 'see workers and health',
  'worker:write': 'drain, release and join workers',
};

export function NewKey({ close }: { close: () => void }) {
  const making = useNewKey();
  const { data: session } = useQuery(sessionQuery);
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<readonly string[]>(['run:read', 'artifact:read']);
  const [life, setLife] = useState(String(90 * DAY_S));
  if (making.data) return <Made secret={making.data.key} name={making.data.name} close={close} />;
  const offered = (session?.scopes ?? []).filter((scope) => scope !== '*');
  const asked = scopes.filter((scope) => offered.includes(scope));
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        making.mutate({ name: name.trim(), scopes: asked, expires_in_s: life === '' ? null : Number(life) });
      }}
    >
      <TextInput
        label="Name"
        description="A person or a program; stands in the records of what it did."
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        maxLength={200}
        required
        data-autofocus
      />
      <fieldset className="scopes">
        <legend className="strong">It may</legend>
        {offered.map((scope) => (
          <Checkbox
            key={scope}
            size="xs"
            label={MEANINGS[scope] ?? scope}
            description={scope}
            checked={scopes.includes(scope)}
            onChange={(event) => {
              const isChosen = event.currentTarget.checked;
              setScopes((known) => (isChosen ? [...known, scope] : known.filter((other) => other !== scope)));
            }}
          />
        ))}
      </fieldset>
      <NativeSelect
        label="It ends"
        value={life}
        onChange={(event) => setLife(event.currentTarget.value)}
        data={LIVES}
      />
      {making.error ? <Problem error={making.error} /> : null}
      <div className="filters">
        <Button type="submit" size="xs" loading={making.isPending} disabled={name.trim() === '' || asked.length === 0}>
          Make the key
        </Button>
        <Button size="xs" variant="default" onClick={close}>
          Leave
        </Button>
      </div>
    </form>
  );
}

function Made({ secret, name, close }: { secret: string; name: string; close: () => void }) {
  return (
    <div className="stack">
      <p>
        The key of <bdi className="strong">{name}</bdi> is shown only now. Copy it before you close this.
      </p>
      <code className="secret">{secret}</code>
      <p className="sub">
        Programs send it in the header <code>X-API-Key</code>; the command line reads it from <code>VLMHB_API_KEY</code>
        .
      </p>
      <div className="filters">
        <CopyButton value={secret}>
          {({ copied, copy }) => (
            <Button size="xs" onClick={copy}>
              {copied ? 'Copied' : 'Copy'}
            </Button>
          )}
        </CopyButton>
        <Button size="xs" variant="default" onClick={close}>
          I have it
        </Button>
      </div>
    </div>
  );
}
