/** The keys of the project: who has one, what it may do, until when; make one, revoke one. */
import { Button, Modal } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Ago } from '../../ui/Ago';
import { useAllowed } from '../../ui/allowed';
import { Loaded } from '../../ui/Loaded';
import { Empty, Problem } from '../../ui/Notes';
import { Scroll } from '../../ui/Scroll';
import { NewKey } from './NewKey';
import { type ApiKey, keysQuery, useRevocation } from './queries';

const TONES = { valid: 'good', expired: 'warn', revoked: '' } as const;

export function Keys() {
  const query = useQuery(keysQuery);
  const [isNew, setIsNew] = useState(false);
  const [asked, setAsked] = useState<ApiKey | null>(null);
  const mayWrite = useAllowed('key:write');
  return (
    <section className="card" aria-label="Keys">
      <header>
        <h2>Keys of the API</h2>
        <span className="sub">a secret is shown once; every key stays on record</span>
        {mayWrite ? (
          <Button size="xs" className="end" onClick={() => setIsNew(true)}>
            New key
          </Button>
        ) : null}
      </header>
      <Loaded query={query} what="keys">
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="There is no key" />
          ) : (
            <Table keys={items} ask={mayWrite ? setAsked : null} />
          )
        }
      </Loaded>
      <Modal
        opened={isNew}
        onClose={() => setIsNew(false)}
        title="New key"
        closeOnClickOutside={false}
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        {isNew ? <NewKey close={() => setIsNew(false)} /> : null}
      </Modal>
      <Modal
        opened={asked !== null}
        onClose={() => setAsked(null)}
        title="Revoke a key"
        size="sm"
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        {asked ? <Revocation asked={asked} close={() => setAsked(null)} /> : null}
      </Modal>
    </section>
  );
}

function Table({ keys, ask }: { keys: readonly ApiKey[]; ask: ((key: ApiKey) => void) | null }) {
  return (
    <Scroll label="Table of keys">
      <table className="data">
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">State</th>
            <th scope="col" className="from-sm">
              May
            </th>
            <th scope="col" className="from-md">
              Made
            </th>
            <th scope="col">Ends</th>
            <th scope="col">
              <span className="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {keys.map((key) => (
            <tr key={key.prefix}>
              <th scope="row">
                <bdi className="strong">{key.name}</bdi>
                <div className="sub">
                  <code>{key.prefix}_…</code>
                  {key.is_own ? ' · this browser signed in with it' : ''}
                </div>
              </th>
              <td>
                <span className={`badge ${TONES[key.state]}`}>{key.state}</span>
              </td>
              <td className="sub from-sm">{key.scopes.includes('*') ? 'everything' : key.scopes.join(', ')}</td>
              <td className="sub from-md">
                <Ago at={key.created_at} /> by <bdi>{key.created_by ?? 'the stack'}</bdi>
              </td>
              <td className="sub key-end">
                {key.revoked_at ? (
                  <>
                    revoked <Ago at={key.revoked_at} /> by <bdi>{key.revoked_by ?? '–'}</bdi>
                  </>
                ) : (
                  (key.expires_at?.slice(0, 10) ?? 'never')
                )}
              </td>
              <td className="num">
                {ask && key.state === 'valid' && !key.is_own ? (
                  <Button
                    size="compact-xs"
                    variant="default"
                    className="danger"
                    aria-label={`Revoke the key of ${key.name}`}
                    onClick={() => ask(key)}
                  >
                    Revoke
                  </Button>
                ) : null}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function Revocation({ asked, close }: { asked: ApiKey; close: () => void }) {
  const revocation = useRevocation();
  return (
    <div className="stack">
      <p>
        <strong>
          <bdi>{asked.name}</bdi>
        </strong>{' '}
        <code>{asked.prefix}</code>
      </p>
      <p className="sub">
        Programs that use it and browsers that it has signed in are refused from now on. It cannot be made valid again.
      </p>
      {revocation.error ? <Problem error={revocation.error} /> : null}
      <div className="filters">
        <Button
          size="xs"
          loading={revocation.isPending}
          onClick={() => revocation.mutate(asked.prefix, { onSuccess: close })}
        >
          Revoke it
        </Button>
        <Button size="xs" variant="default" onClick={close}>
          Leave it valid
        </Button>
      </div>
    </div>
  );
}
