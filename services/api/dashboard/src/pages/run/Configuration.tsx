/** The effective configuration: every value with where it was written, and what it was resolved to. */
import { TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Search } from 'lucide-react';
import { useState } from 'react';
import { manifestQuery, type RunDetail } from '../../api/queries';
import { Loaded } from '../../ui/Loaded';
import { Scroll } from '../../ui/Scroll';

export function Configuration({ run }: { run: RunDetail }) {
  const manifest = useQuery(manifestQuery(run.id));
  const [q, setQ] = useState('');
  return (
    <Loaded query={manifest} what="the configuration">
      {({ configuration }) => {
        const rows = Object.entries(configuration).filter(([path, { value, origin }]) =>
          `${path} ${JSON.stringify(value)} ${origin}`.toLowerCase().includes(q.toLowerCase()),
        );
        return (
          <div className="stack">
            <div className="filters">
              <TextInput
                size="xs"
                aria-label="Filter the configuration"
                placeholder="Path, value or origin"
                leftSection={<Search size={13} aria-hidden="true" />}
                value={q}
                onChange={(event) => setQ(event.currentTarget.value)}
              />
              <span className="sub">
                {rows.length} of {Object.keys(configuration).length} values
              </span>
            </div>
            <div className="card">
              <Scroll label="Configuration">
                <table className="data stacked">
                  <thead>
                    <tr>
                      <th scope="col">Value of</th>
                      <th scope="col">Value</th>
                      <th scope="col">Written in</th>
                    </tr>
                  </thead>
                  <tbody>
                    {rows.map(([path, { value, origin }]) => (
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
          </div>
        );
      }}
    </Loaded>
  );
}
