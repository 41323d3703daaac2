/** Choose what is compared: the baseline first, then the runs of the same task. */
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { equals } from '../../api/filters';
import { type RunRow, rowsQuery } from '../../api/listing';
import { ENDED } from '../../api/queries';
import { Ago } from '../../ui/Ago';
import { Loaded } from '../../ui/Loaded';
import { Empty } from '../../ui/Notes';
import { Scroll } from '../../ui/Scroll';
import { StateBadge } from '../../ui/StateBadge';

export function Chooser({ chosen }: { chosen: readonly string[] }) {
  const [id] = chosen;
  const baseline = useQuery({ ...rowsQuery({ where: [equals('id', id ?? '')], limit: 1 }), enabled: id !== undefined });
  if (id === undefined) return <Choice first={undefined} />;
  return (
    <Loaded query={baseline} what="the baseline">
      {({ items }) => <Choice first={items[0]} />}
    </Loaded>
  );
}

function Choice({ first }: { first: RunRow | undefined }) {
  const where = [equals('state', ...ENDED), ...(first ? [equals('task', first.task)] : [])];
  const query = useQuery(rowsQuery({ where }));
  return (
    <Loaded query={query} what="runs">
      {({ items }) => <Table runs={items.filter((run) => run.id !== first?.id && hasResults(run))} first={first} />}
    </Loaded>
  );
}

/** Whether a run has a report, from which it is compared. */
function hasResults(run: RunRow): boolean {
  return run.score !== null || run.latency_p50_ms !== null;
}

function Table({ runs: shown, first }: { runs: readonly RunRow[]; first: RunRow | undefined }) {
  if (shown.length === 0) {
    return (
      <Empty title={first ? `No other run of ${first.task} has ended` : 'No run has ended'}>
        <p className="note-text">Runs can be compared when they have their results.</p>
      </Empty>
    );
  }
  return (
    <section className="card" aria-label="Choose runs">
      <header>
        <h2>{first ? 'Choose the run that is compared with it' : 'Choose the baseline'}</h2>
        {first ? (
          <span className="sub">
            Baseline: <bdi>{first.name}</bdi>
          </span>
        ) : null}
      </header>
      <Scroll label="Runs to choose from">
        <table className="data">
          <thead>
            <tr>
              <th scope="col">Run</th>
              <th scope="col">State</th>
              <th scope="col">Ended</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((run) => (
              <tr key={run.id}>
                <th scope="row">
                  <Link to="/compare" search={{ runs: first ? `${first.id},${run.id}` : run.id }}>
                    <bdi>{run.name}</bdi>
                  </Link>
                  <div className="sub">
                    <bdi>{run.target}</bdi> · <bdi>{run.task}</bdi>
                  </div>
                </th>
                <td>
                  <StateBadge state={run.state} />
                </td>
                <td className="sub">
                  <Ago at={run.finished_at} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}
