/** What is drained, by whom and why; also machines whose workers have left. */
import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Ago } from '../../ui/Ago';
import { Loaded } from '../../ui/Loaded';
import { Scroll } from '../../ui/Scroll';
import type { Asked } from './Confirm';
import { drainsQuery, useMayChange } from './queries';

export function Drains({ past, ask }: { past: boolean; ask: (asked: Asked) => void }) {
  const query = useQuery(drainsQuery(past));
  const mayChange = useMayChange();
  return (
    <section className="card" aria-label="Drains">
      <header>
        <h2>Drained</h2>
      </header>
      <Loaded query={query} what="drains">
        {({ items }) =>
          items.length === 0 ? (
            <div className="body sub">Nothing is drained.</div>
          ) : (
            <Scroll label="Table of drains">
              <table className="data">
                <thead>
                  <tr>
                    <th scope="col">What</th>
                    <th scope="col">Reason</th>
                    <th scope="col">Since</th>
                    <th scope="col">
                      <span className="visually-hidden">Resume</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((drain) => (
                    <tr key={drain.id}>
                      <th scope="row">
                        <bdi>{drain.name}</bdi> <span className="sub">{drain.scope}</span>
                      </th>
                      <td className="wide-text">
                        <bdi>{drain.reason}</bdi>
                      </td>
                      <td className="sub">
                        <Ago at={drain.drained_at} /> by <bdi>{drain.drained_by}</bdi>
                      </td>
                      <td className="num">
                        {drain.resumed_at ? (
                          <span className="sub">
                            resumed <Ago at={drain.resumed_at} /> by {drain.resumed_by}
                          </span>
                        ) : mayChange ? (
                          <Button
                            size="compact-xs"
                            variant="default"
                            onClick={() => ask({ kind: 'resume', scope: drain.scope, name: drain.name })}
                            aria-label={`Resume ${drain.name}`}
                          >
                            Resume
                          </Button>
                        ) : null}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Scroll>
          )
        }
      </Loaded>
    </section>
  );
}
