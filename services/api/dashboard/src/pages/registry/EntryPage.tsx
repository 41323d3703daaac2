/** One registry entry: its values with where each was written, its YAML, what uses it, and what is wrong in it. */
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import type { Schemas } from '../../api/client';
import { equals } from '../../api/filters';
import { Loaded } from '../../ui/Loaded';
import { Origins } from '../../ui/Origins';
import { Scroll } from '../../ui/Scroll';
import { useTitle } from '../../ui/useTitle';
import { COLUMN_OF, entryQuery } from './queries';
import { registryEntry as route } from './route';

type Entry = Schemas['RegistryEntry'];

export function EntryPage() {
  const { kind, name } = route.useParams();
  const { q } = route.useSearch();
  const navigate = useNavigate({ from: '/registry/$kind/$name' });
  useTitle(name);
  const query = useQuery(entryQuery(kind, name));
  return (
    <div className="page">
      <div className="page-head">
        <h1>
          <bdi>{name}</bdi>
        </h1>
        <Link to="/registry" search={{ kind }}>
          {kind}
        </Link>
      </div>
      <Loaded query={query} what="the entry">
        {(entry) => (
          <>
            {entry.description ? (
              <p>
                <bdi>{entry.description}</bdi>
              </p>
            ) : null}
            {entry.problem?.split('\n').map((problem) => (
              <p key={problem} className="reason">
                {problem}
              </p>
            ))}
            <dl className="pairs">
              <dt>Version</dt>
              <dd className="mono">{entry.version || 'none'}</dd>
              <dt>Read from</dt>
              <dd className="mono">{entry.file ?? `the database, version ${entry.revision ?? 1}`}</dd>
              <dt>Used by</dt>
              <dd>
                <Users entry={entry} />
              </dd>
            </dl>
            {entry.values?.length ? (
              <section className="stack" aria-label="Effective value">
                <h2>Effective value</h2>
                <Origins
                  values={entry.values}
                  label="Effective value"
                  find={q}
                  change={(words) =>
                    void navigate({ search: words ? { q: words } : {}, replace: true, resetScroll: false })
                  }
                />
              </section>
            ) : null}
            {entry.text ? (
              <section className="card" aria-label="YAML">
                <header>
                  <h2>YAML</h2>
                  <span className="sub">as it was written</span>
                </header>
                <Scroll label="YAML of the entry">
                  <pre className="body">{entry.text}</pre>
                </Scroll>
              </section>
            ) : null}
          </>
        )}
      </Loaded>
    </div>
  );
}

function Users({ entry }: { entry: Entry }) {
  const column = COLUMN_OF[entry.kind];
  return (
    <>
      {(entry.used_by ?? []).map(({ kind, name }, no) => (
        <span key={`${kind}/${name}`}>
          {no > 0 ? ', ' : ''}
          {kind}/
          <Link to="/registry/$kind/$name" params={{ kind, name }}>
            <bdi>{name}</bdi>
          </Link>
        </span>
      ))}
      {entry.used_by?.length ? null : <span className="none">no other entry</span>}
      {column ? (
        <>
          {' · '}
          <Link to="/runs" search={{ where: [equals(column, entry.name)] }}>
            its runs
          </Link>
        </>
      ) : null}
    </>
  );
}
