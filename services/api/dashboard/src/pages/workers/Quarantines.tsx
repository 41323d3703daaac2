/** Devices in quarantine: why, since when, and their release. */
import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Ago } from '../../ui/Ago';
import { Loaded } from '../../ui/Loaded';
import { Scroll } from '../../ui/Scroll';
import type { Asked } from './Confirm';
import { quarantinesQuery, useMayChange } from './queries';

export function Quarantines({ past, ask }: { past: boolean; ask: (asked: Asked) => void }) {
  const query = useQuery(quarantinesQuery(past));
  const mayChange = useMayChange();
  return (
    <section className="card" aria-label="Quarantines">
      <header>
        <h2>Quarantine</h2>
      </header>
      <Loaded query={query} what="quarantines">
        {({ items }) =>
          items.length === 0 ? (
            <div className="body sub">No device is in quarantine.</div>
          ) : (
            <Scroll label="Table of quarantines">
              <table className="data">
                <thead>
                  <tr>
                    <th scope="col">Device</th>
                    <th scope="col">Reason</th>
                    <th scope="col">Since</th>
                    <th scope="col">
                      <span className="visually-hidden">Release</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((quarantine) => (
                    <tr key={quarantine.id}>
                      <th scope="row">
                        <bdi>{quarantine.device_name}</bdi>
                        <div className="sub">
                          <bdi>{quarantine.worker}</bdi> on <bdi>{quarantine.host}</bdi>
                        </div>
                      </th>
                      <td className="wide-text">
                        <bdi>{quarantine.reason}</bdi>
                      </td>
                      <td className="sub">
                        <Ago at={quarantine.since} />
                      </td>
                      <td className="num">
                        {quarantine.released_at ? (
                          <span className="sub">
                            released <Ago at={quarantine.released_at} /> by {quarantine.released_by}
                          </span>
                        ) : mayChange ? (
                          <Button
                            size="compact-xs"
                            variant="default"
                            onClick={() =>
                              ask({ kind: 'release', uuid: quarantine.device, name: quarantine.device_name })
                            }
                            aria-label={`Release ${quarantine.device_name}`}
                          >
                            Release
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
