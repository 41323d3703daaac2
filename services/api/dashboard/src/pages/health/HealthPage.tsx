/** What `vlmhyperbench doctor` says of the API's machine and of the platform, with the cure of each failed check. */
import { Button } from '@mantine/core';
import { queryOptions, useQuery } from '@tanstack/react-query';
import { api, body, type Schemas } from '../../api/client';
import { Ago } from '../../ui/Ago';
import { Loaded } from '../../ui/Loaded';
import { WithCode } from '../../ui/Notes';
import { useTitle } from '../../ui/useTitle';

type Diagnosis = Schemas['Diagnosis'];
type Check = Diagnosis['checks'][number];

const EVERY_MS = 15_000;
const healthQuery = queryOptions({
  queryKey: ['doctor'],
  queryFn: ({ signal }) => body(api.GET('/api/v1/doctor', { signal })),
  refetchInterval: EVERY_MS,
});

export function HealthPage() {
  useTitle('Health');
  const query = useQuery(healthQuery);
  return (
    <div className="page">
      <div className="page-head">
        <h1>Health</h1>
        <span className="sub">
          what <code>vlmhyperbench doctor</code> says of the API's machine and the platform
        </span>
        <Button
          size="xs"
          variant="default"
          className="end"
          loading={query.isFetching}
          onClick={() => void query.refetch()}
        >
          Check again
        </Button>
      </div>
      <Loaded query={query} what="the checks">
        {(diagnosis) => <Checks diagnosis={diagnosis} />}
      </Loaded>
    </div>
  );
}

export function Checks({ diagnosis }: { diagnosis: Diagnosis }) {
  const failed = diagnosis.checks.filter((check) => !check.is_ok);
  const passed = diagnosis.checks.filter((check) => check.is_ok);
  return (
    <>
      <p className="verdict">
        <span className={`badge ${diagnosis.is_ok ? 'good' : 'bad'}`}>
          {diagnosis.is_ok ? '✓ All checks passed' : `✕ ${failed.length} of ${diagnosis.checks.length} checks failed`}
        </span>{' '}
        <span className="sub">
          version {diagnosis.version}, checked <Ago at={diagnosis.checked_at} />
        </span>
      </p>
      {failed.length > 0 ? <List title="Failed" checks={failed} /> : null}
      {passed.length > 0 ? <List title="Passed" checks={passed} /> : null}
    </>
  );
}

function List({ title, checks }: { title: string; checks: readonly Check[] }) {
  return (
    <section className="card" aria-label={`${title} checks`}>
      <header>
        <h2>{title}</h2>
        <span className="sub">{checks.length}</span>
      </header>
      <table className="data">
        <thead className="visually-hidden">
          <tr>
            <th scope="col">Check</th>
            <th scope="col">What it says</th>
          </tr>
        </thead>
        <tbody>
          {checks.map((check) => (
            <tr key={check.name}>
              <th scope="row" className="check-name">
                <span className={`badge ${check.is_ok ? 'good' : 'bad'}`}>
                  <span aria-hidden="true">{check.is_ok ? '✓' : '✕'}</span> {check.name}
                </span>
              </th>
              <td className="check-detail">
                <bdi>{check.detail}</bdi>
                {!check.is_ok && check.cure ? (
                  <p className="sub">
                    <WithCode text={check.cure} />
                  </p>
                ) : null}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
