/** In what two runs differ: values of their specs, and how each metric was computed. */
import { Scroll } from '../../ui/Scroll';
import type { Compared } from './queries';

type Difference = Compared['configuration'][number];

export function Differences({ compared }: { compared: Compared }) {
  const evaluation = Object.entries(compared.evaluation).filter(([, differences]) => differences.length > 0);
  return (
    <>
      <Table
        title="Configuration"
        note={compared.configuration.length === 0 ? 'Both specs are equal.' : undefined}
        rows={compared.configuration}
      />
      {evaluation.length === 0 ? (
        <Table title="Evaluation" note="Every common metric was computed alike." rows={[]} />
      ) : (
        evaluation.map(([metric, differences]) => (
          <Table key={metric} title={`Evaluation of ${metric}`} rows={differences} note={undefined} />
        ))
      )}
    </>
  );
}

function Table({ title, note, rows }: { title: string; note: string | undefined; rows: readonly Difference[] }) {
  return (
    <section className="card" aria-label={title}>
      <header>
        <h2>{title}</h2>
      </header>
      {note ? (
        <div className="body sub">{note}</div>
      ) : (
        <Scroll label={`Table of ${title}`}>
          <table className="data">
            <thead>
              <tr>
                <th scope="col">Value of</th>
                <th scope="col">Baseline</th>
                <th scope="col">Other</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((difference) => (
                <tr key={difference.path}>
                  <th scope="row" className="mono compared-path">
                    {difference.path}
                  </th>
                  <Value value={difference.baseline} />
                  <Value value={difference.other} />
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </section>
  );
}

function Value({ value }: { value: unknown }) {
  return (
    <td className="wide-text mono">
      <bdi>{typeof value === 'string' ? value : JSON.stringify(value)}</bdi>
    </td>
  );
}
