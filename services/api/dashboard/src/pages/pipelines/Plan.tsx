/** What one question to a draft would take: its steps with the time of earlier answers, and memory on each device. */
import { useQuery } from '@tanstack/react-query';
import { bytes, seconds } from '../../ui/format';
import { Loading, Problem } from '../../ui/Notes';
import { Scroll } from '../../ui/Scroll';
import type { Entry } from '../new-run/entry';
import { Memory } from '../new-run/PlanCard';
import { type PipelinePlan, planQuery } from './queries';
import { ROLE_WORDS } from './steps';

interface Props {
  content: { name: string; entry: Entry };
  isValid: boolean;
  isBegun: boolean;
}

export function Plan({ content, isValid, isBegun }: Props) {
  const query = useQuery({ ...planQuery(content.name, content.entry), enabled: isValid });
  const isCurrent = isValid && !query.isPlaceholderData && !query.isFetching;
  return (
    <section className="card" aria-label="Plan of one question" aria-busy={isValid && !isCurrent}>
      <header>
        <h2>Plan of one question</h2>
        <span className="sub" role="status">
          {isBegun && !isValid ? 'once the pipeline is valid' : isValid && !isCurrent ? 'is being made …' : ''}
        </span>
      </header>
      <div className="body">
        {!isBegun ? <p className="sub">It shows steps, time and memory; nothing is asked.</p> : null}
        {isValid && query.error ? <Problem error={query.error} retry={() => void query.refetch()} /> : null}
        {isValid && !query.error && !query.data ? <Loading what="the plan" /> : null}
        {query.data && !query.error && isBegun ? (
          <div className={isCurrent ? '' : 'old'}>
            <Content plan={query.data} />
          </div>
        ) : null}
      </div>
    </section>
  );
}

function Content({ plan }: { plan: PipelinePlan }) {
  const { time } = plan;
  return (
    <div className="stack">
      <dl className="figures">
        <div>
          <dt>Time</dt>
          <dd>
            {seconds(time.expected_s)}
            <small>
              {time.expected_s === null ? '' : `${seconds(time.shortest_s)} to ${seconds(time.longest_s)}: `}
              {time.note}
            </small>
          </dd>
        </div>
        <div>
          <dt>Memory</dt>
          <dd>
            {bytes(plan.largest_bytes)}
            <small>
              {plan.largest_bytes === null
                ? 'that of a model is not known'
                : `of the largest model; ${bytes(plan.together_bytes)} if all stay loaded`}
            </small>
          </dd>
        </div>
      </dl>
      <Scroll label="Steps of the plan">
        <table className="data">
          <thead>
            <tr>
              <th scope="col">Step</th>
              <th scope="col" className="num">
                Time
              </th>
            </tr>
          </thead>
          <tbody>
            {plan.steps.map((step) => (
              <tr key={`${step.stage} ${step.role} ${step.model}`}>
                <th scope="row">
                  <bdi>{step.stage}</bdi>: <bdi>{step.model}</bdi>{' '}
                  <span className="sub">{ROLE_WORDS[step.role] ?? ''}</span>
                </th>
                <td className="num">
                  {step.expected_s === null ? 'never measured' : seconds(step.expected_s)}
                  {step.expected_s === null ? null : (
                    <div className="sub">
                      {seconds(step.shortest_s)} to {seconds(step.longest_s)}
                    </div>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <Memory memory={plan.memory} />
    </div>
  );
}
