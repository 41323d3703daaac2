/** Values with where each was written: a table that is filtered by path, value or origin. */
import { TextInput } from '@mantine/core';
import { Search } from 'lucide-react';
import { useState } from 'react';
import { count } from './format';
import { Scroll } from './Scroll';

export interface Written {
  path: string;
  value: unknown;
  origin: string;
}

export function Origins({ values, label }: { values: readonly Written[]; label: string }) {
  const [q, setQ] = useState('');
  const shown = values.filter(({ path, value, origin }) =>
    `${path} ${JSON.stringify(value)} ${origin}`.toLowerCase().includes(q.toLowerCase()),
  );
  return (
    <>
      <div className="filters">
        <TextInput
          size="xs"
          aria-label={`Filter: ${label}`}
          placeholder="Path, value or origin"
          leftSection={<Search size={13} aria-hidden="true" />}
          value={q}
          onChange={(event) => setQ(event.currentTarget.value)}
        />
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
