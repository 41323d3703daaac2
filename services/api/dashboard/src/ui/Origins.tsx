/** Values with where each was written: a table that is filtered by path, value or origin. */
import { count } from './format';
import { Scroll } from './Scroll';
import { SearchField } from './SearchField';

export interface Written {
  path: string;
  value: unknown;
  origin: string;
}

interface Props {
  values: readonly Written[];
  label: string;
  /** The words of the address by which values are filtered. */
  find: string | undefined;
  change: (find: string | undefined) => void;
}

export function Origins({ values, label, find = '', change }: Props) {
  const shown = values.filter(({ path, value, origin }) =>
    `${path} ${JSON.stringify(value)} ${origin}`.toLowerCase().includes(find.toLowerCase()),
  );
  return (
    <>
      <div className="filters">
        <SearchField label={`Filter: ${label}`} placeholder="Path, value or origin" value={find} change={change} />
        <span className="sub">
          {count(shown.length)} of {count(values.length)} values
        </span>
      </div>
      <div className="card">
        <Scroll label={label}>
          <table className="data stacked">
            <thead>
              <tr>
                <th scope="col">Value of</th>
                <th scope="col">Value</th>
                <th scope="col">Written in</th>
              </tr>
            </thead>
            <tbody>
              {shown.map(({ path, value, origin }) => (
                <tr key={path}>
                  <th scope="row" className="mono">
                    {path}
                  </th>
                  <td className="wide-text mono">
                    <bdi>{typeof value === 'string' ? value : JSON.stringify(value)}</bdi>
                  </td>
                  <td className="wide-text sub">{origin}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      </div>
    </>
  );
}
