/** The errors of a run's requests, most frequent first, with whose fault each kind is. */
import type { Schemas } from '../../api/client';
import { count } from '../../ui/format';
import { Scroll } from '../../ui/Scroll';

const TONES: Record<string, string> = { model: 'bad', sample: 'warn', configuration: 'warn', infrastructure: 'off' };

export function Errors({ errors }: { errors: readonly Schemas['RequestError'][] }) {
  return (
    <section className="card" aria-label="Errors">
      <header>
        <h2>Errors</h2>
        <span className="sub">those of configuration and infrastructure never count against the model</span>
      </header>
      <Scroll label="Table of errors">
        <table className="data">
          <thead>
            <tr>
              <th scope="col" className="num">
                Requests
              </th>
              <th scope="col">Cause</th>
              <th scope="col">Message</th>
            </tr>
          </thead>
          <tbody>
            {errors.map((error) => (
              <tr key={`${error.rule}-${error.code}-${error.message}`}>
                <td className="num">{count(error.count)}</td>
                <td>
                  <span className={`badge ${TONES[error.cause] ?? ''}`}>{error.cause}</span>
                </td>
                <td className="wide-text">
                  <bdi>{error.message}</bdi>
                  <div className="sub">
                    {error.code}
                    {error.http_status ? ` · HTTP ${error.http_status}` : ''}
                  </div>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}
