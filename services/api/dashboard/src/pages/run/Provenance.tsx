/** What the run really used: engines, machines and environments, the model's files, the dataset, and stored files. */
import { useQuery } from '@tanstack/react-query';
import { artifactsQuery, manifestQuery, type RunDetail } from '../../api/queries';
import { Instant } from '../../ui/Ago';
import { bytes } from '../../ui/format';
import { Json } from '../../ui/Json';
import { Loaded } from '../../ui/Loaded';
import { Scroll } from '../../ui/Scroll';

export function Provenance({ run }: { run: RunDetail }) {
  const manifest = useQuery(manifestQuery(run.id));
  const artifacts = useQuery(artifactsQuery(run.id));
  return (
    <div className="stack">
      <dl className="pairs">
        <dt>Run</dt>
        <dd className="mono">{run.id}</dd>
        <dt>Spec digest</dt>
        <dd className="mono">{run.spec_digest}</dd>
        <dt>Created</dt>
        <dd>
          <Instant at={run.created_at} /> by {run.created_by}
        </dd>
        <dt>Ran</dt>
        <dd>
          <Instant at={run.started_at} /> to <Instant at={run.finished_at} />
        </dd>
      </dl>
      <Loaded query={manifest} what="the manifest">
        {(used) => (
          <section className="card" aria-label="Run manifest">
            <header>
              <h2>What was used</h2>
            </header>
            <div className="body">
              <Json value={used} without={['configuration', 'run_id', 'name', 'spec_digest', 'schema']} />
            </div>
          </section>
        )}
      </Loaded>
      <Loaded query={artifacts} what="the files">
        {({ items }) => (
          <section className="card" aria-label="Files">
            <header>
              <h2>Files</h2>
            </header>
            <Scroll label="Table of files">
              <table className="data">
                <thead>
                  <tr>
                    <th scope="col">File</th>
                    <th scope="col">Kind</th>
                    <th scope="col" className="num">
                      Size
                    </th>
                    <th scope="col" className="from-md">
                      SHA-256
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((file) => (
                    <tr key={file.id}>
                      <td>
                        <a href={`/files/${file.id}`}>{file.name}</a>
                      </td>
                      <td>{file.kind}</td>
                      <td className="num">{bytes(file.size_bytes)}</td>
                      <td className="mono from-md wide-text">{file.sha256}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Scroll>
          </section>
        )}
      </Loaded>
    </div>
  );
}
