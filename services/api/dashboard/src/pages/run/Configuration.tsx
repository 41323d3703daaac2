/** The effective configuration: every value with where it was written, and the same as YAML. */
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { manifestQuery, type RunDetail } from '../../api/queries';
import { Loaded } from '../../ui/Loaded';
import { Origins } from '../../ui/Origins';
import { Scroll } from '../../ui/Scroll';
import type { Json } from '../new-run/entry';
import { toYaml } from '../new-run/yaml';
import { type RunSearch, run as route } from './route';

export function Configuration({ run }: { run: RunDetail }) {
  const manifest = useQuery(manifestQuery(run.id));
  const { find } = route.useSearch();
  const navigate = useNavigate({ from: '/runs/$id' });
  return (
    <Loaded query={manifest} what="the configuration">
      {({ configuration }) => (
        <div className="stack">
          <Origins
            label="Configuration"
            find={find}
            change={(words) =>
              void navigate({
                search: (old) => ({ ...old, find: words }) as RunSearch,
                replace: true,
                resetScroll: false,
              })
            }
            values={Object.entries(configuration).map(([path, { value, origin }]) => ({ path, value, origin }))}
          />
          <details>
            <summary>As YAML</summary>
            <div className="card">
              <Scroll label="Configuration as YAML">
                <pre className="body">{toYaml(run.spec as unknown as { [key: string]: Json })}</pre>
              </Scroll>
            </div>
          </details>
        </div>
      )}
    </Loaded>
  );
}
