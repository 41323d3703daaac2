/** One registry entry: its effective value, the file it was read from, and what is wrong in it. */
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Json } from '../../ui/Json';
import { Loaded } from '../../ui/Loaded';
import { useTitle } from '../../ui/useTitle';
import { entryQuery } from './queries';
import { registryEntry as route } from './route';

export function EntryPage() {
  const { kind, name } = route.useParams();
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
            {entry.problem ? <p className="reason">{entry.problem}</p> : null}
            <dl className="pairs">
              <dt>Version</dt>
              <dd className="mono">{entry.version || 'none'}</dd>
              <dt>Read from</dt>
              <dd className="mono">{entry.file ?? 'a package'}</dd>
            </dl>
            <section className="card" aria-label="Effective value">
              <header>
                <h2>Effective value</h2>
                <span className="sub">with the defaults of what the file leaves out</span>
              </header>
              <div className="body">
                <Json value={entry.entry} />
              </div>
            </section>
          </>
        )}
      </Loaded>
    </div>
  );
}
