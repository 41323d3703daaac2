/** What the run would ask, take and need, as the API plans it; what is wrong with it, where it cannot be planned. */
import type { UseQueryResult } from '@tanstack/react-query';
import { ApiError } from '../../api/client';
import { bytes, count, money, seconds } from '../../ui/format';
import { Loading, Problem, WithCode } from '../../ui/Notes';
import { Scroll } from '../../ui/Scroll';
import type { Plan } from './queries';

interface Props {
  query: Pick<UseQueryResult<Plan>, 'data' | 'error' | 'isFetching' | 'refetch'>;
  isBegun: boolean;
  isCurrent: boolean;
  errors: ReadonlyMap<string, string>;
}

export function PlanCard({ query, isBegun, isCurrent, errors }: Props) {
  const isWrong = query.error instanceof ApiError && query.error.status === 422;
  return (
    <section className="card" aria-label="Plan" aria-busy={!isCurrent}>
      <header>
        <h2>Plan</h2>
        <span className="sub" role="status">
          {isBegun && !isCurrent ? 'is being made …' : isWrong ? 'there is none yet' : ''}
        </span>
      </header>
      <div className="body">
        {!isBegun ? (
          <p className="sub">Choose a target and a task; the plan shows what the run would ask and need.</p>
        ) : null}
        {isBegun && query.error && !isWrong ? <Problem error={query.error} retry={() => void query.refetch()} /> : null}
        {isBegun && isWrong ? <Wrong error={query.error as ApiError} errors={errors} /> : null}
        {isBegun && !query.error && query.data ? (
          <div className={isCurrent ? '' : 'old'}>
            <Content plan={query.data} />
          </div>
        ) : null}
        {isBegun && !query.error && !query.data ? <Loading what="the plan" /> : null}
      </div>
    </section>
  );
}

function Wrong({ error, errors }: { error: ApiError; errors: ReadonlyMap<string, string> }) {
  if (errors.size === 0) return <Problem error={error} />;
  return (
    <ul className="wrong" aria-label="What is wrong">
      {[...errors].map(([field, text]) => (
        <li key={field}>
          {field ? <code>{field}</code> : null} <WithCode text={text} />
        </li>
      ))}
    </ul>
  );
}

function Content({ plan }: { plan: Plan }) {
  return (
    <div className="stack">
      {plan.warnings.map((warning) => (
        <p key={warning} className="stale">
          {warning}
        </p>
      ))}
      <dl className="figures">
        <Figure
          name="Samples"
          value={amount(plan.samples.count, plan.samples.basis === 'limit')}
          note={plan.samples.note}
        />
        <Figure name="Requests" value={requests(plan)} note={kinds(plan)} />
        <Figure name="Inference" value={seconds(plan.time.expected_s)} note={timeNote(plan)} />
        <Figure name="Cost" value={money(plan.cost.total, plan.cost.currency)} note={costNote(plan)} />
      </dl>
      <Memory memory={plan.memory} />
      <Environments plan={plan} />
      <Origins plan={plan} />
    </div>
  );
}

function Figure({ name, value, note }: { name: string; value: string; note: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {value}
        <small>{note}</small>
      </dd>
    </div>
  );
}

const FITS = {
  fits: ['good', 'fits'],
  fits_later: ['warn', 'fits when it is free'],
  takes_all: ['warn', 'unknown: takes all of it'],
  too_small: ['bad', 'too small'],
  unavailable: ['', 'not available'],
} as const;

export function Memory({ memory }: { memory: Plan['memory'] }) {
  const { devices, total, refused, note } = memory;
  return (
    <section aria-label="Memory">
      <h3>Memory</h3>
      {refused ? <p className="reason">{refused}</p> : null}
      {devices.length === 0 ? (
        <p className="sub">{sentence(note)}</p>
      ) : (
        <Scroll label="Memory of devices">
          <table className="data">
            <thead>
              <tr>
                <th scope="col">Device</th>
                <th scope="col" className="num">
                  Needs
                </th>
                <th scope="col" className="num">
                  Free
                </th>
                <th scope="col">Verdict</th>
              </tr>
            </thead>
            <tbody>
              {devices.map((verdict) => (
                <tr key={`${verdict.target} ${verdict.worker} ${verdict.device}`}>
                  <th scope="row">
                    <bdi>{verdict.worker}</bdi> {verdict.device}
                    <div className="sub">
                      {verdict.device_name} · for <bdi>{verdict.target}</bdi>
                    </div>
                  </th>
                  <td className="num" title={verdict.basis}>
                    {verdict.need_bytes === null ? 'unknown' : bytes(verdict.need_bytes)}
                  </td>
                  <td className="num">
                    {bytes(verdict.free_bytes)}
                    <div className="sub">of {bytes(verdict.memory_bytes)}</div>
                  </td>
                  <td>
                    <span className={`badge ${FITS[verdict.fit][0]}`}>{FITS[verdict.fit][1]}</span>
                    {verdict.basis ? <div className="sub">by {verdict.basis}</div> : null}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      {total > devices.length ? <p className="sub">{count(total - devices.length)} more are not shown.</p> : null}
    </section>
  );
}

function Environments({ plan }: { plan: Plan }) {
  return (
    <section aria-label="Environments">
      <h3>Environment</h3>
      {plan.environments.length === 0 ? (
        <p className="sub">It runs in the platform's own interpreter; nothing is installed.</p>
      ) : null}
      {plan.environments.map((environment) => (
        <div key={environment.of} className="line">
          <div className="line-head">
            <span className={`badge ${isBuilt(environment.state) ? 'good' : 'warn'}`}>{environment.state}</span>
            <bdi>{environment.of}</bdi>
            <span className="sub">
              {environment.kind}
              {environment.packages ? ` · ${count(environment.packages)} packages` : ''}
              {environment.size_bytes ? ` · ${bytes(environment.size_bytes)}` : ''}
            </span>
          </div>
          <p className="sub mono">{environment.installs.join(' · ')}</p>
        </div>
      ))}
    </section>
  );
}

function Origins({ plan }: { plan: Plan }) {
  const values = Object.entries(plan.configuration);
  const written = values.filter(([, { origin }]) => origin !== 'default');
  return (
    <details className="form-group">
      <summary>Every value and where it was written</summary>
      <p className="sub">{count(values.length - written.length)} others are defaults.</p>
      <Scroll label="Values with their origins">
        <table className="data">
          <tbody>
            {written.map(([path, { value, origin }]) => (
              <tr key={path}>
                <th scope="row">
                  <code>{path}</code>
                </th>
                <td className="wide-text">
                  <bdi>{typeof value === 'string' ? value : JSON.stringify(value)}</bdi>
                </td>
                <td className="sub">{origin}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </details>
  );
}

function amount(value: number | null, isAtMost: boolean): string {
  return value === null ? 'unknown' : `${isAtMost ? '≤ ' : ''}${count(value)}`;
}

function requests(plan: Plan): string {
  const known = plan.requests.map((item) => item.count);
  if (known.includes(null)) return 'unknown';
  const sum = known.reduce<number>((total, value) => total + (value ?? 0), 0);
  return amount(sum, plan.samples.basis === 'limit');
}

const NAMES = {
  warmup: 'warm-up',
  baseline: 'baseline',
  answers: 'answers',
  member: 'answers',
  judge: 'verdicts',
} as const;

function kinds(plan: Plan): string {
  return plan.requests
    .map((item) => {
      const who = item.metric ?? item.member;
      return `${item.count === null ? '?' : count(item.count)} ${NAMES[item.kind]}${who ? ` by ${who}` : ''}`;
    })
    .join(' + ');
}

function timeNote({ time }: Plan): string {
  if (time.expected_s === null) return sentence(time.note);
  return `${seconds(time.shortest_s)} to ${seconds(time.longest_s)}: ${time.note}`;
}

function costNote({ cost }: Plan): string {
  const range = cost.total === null ? '' : `${money(cost.low, null)} to ${money(cost.high, null)}: `;
  return [cost.prices, `${range}${cost.note}`].filter(Boolean).join('; ');
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function isBuilt(state: string): boolean {
  return state === 'ready' || state === 'in use';
}
