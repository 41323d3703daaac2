/** How a pipeline came to its answer: each stage with its vote, and what each of its models answered. */
import type { Schemas } from '../../api/client';
import { count, fixed, milliseconds } from '../../ui/format';
import { LongText } from './LongText';

type Member = Schemas['MemberAnswer'];

interface Stage {
  id: string;
  status?: string;
  n_valid?: number | null;
  support?: number | null;
  confidence?: number | null;
  tie?: boolean;
  dissent?: readonly string[];
  reason?: string | null;
}

/** The stages of the trace with the answers of their models; a stage without a trace has its answers alone. */
export function stagesOf(
  pipeline: Schemas['SampleDetail']['pipeline'],
  members: readonly Member[],
): [Stage, Member[]][] {
  const traced = (Array.isArray(pipeline?.stages) ? pipeline.stages : []) as unknown as Stage[];
  const ids = [...new Set([...traced.map(({ id }) => id), ...members.map(({ stage }) => stage)])];
  return ids.map((id) => [
    traced.find((stage) => stage.id === id) ?? { id },
    members.filter((member) => member.stage === id),
  ]);
}

interface Props {
  pipeline: Schemas['SampleDetail']['pipeline'];
  members: readonly Member[];
}

export function Members({ pipeline, members }: Props) {
  return (
    <ol className="member-stages" aria-label="Stages of the pipeline">
      {stagesOf(pipeline, members).map(([stage, answers]) => (
        <li key={stage.id}>
          <h3>
            <bdi>{stage.id}</bdi> <span className="sub">{voteOf(stage)}</span>
          </h3>
          {stage.status && stage.status !== 'ok' ? (
            <p className="reason">
              {stage.status.replaceAll('_', ' ')} {stage.reason ?? ''}
            </p>
          ) : null}
          <ul>
            {answers.map((member) => (
              <li key={`${member.role} ${member.model}`} aria-label={`${member.model} in ${stage.id}`}>
                <p className="line-head">
                  <bdi className="strong">{member.model}</bdi>
                  {member.role === 'member' ? null : <span className="badge">{member.role}</span>}
                  {member.is_reused ? <span className="badge">reused</span> : null}
                  {stage.dissent?.includes(member.model) ? <span className="badge warn">said otherwise</span> : null}
                  <span className="sub">
                    {milliseconds(member.latency_ms)} · {count(member.prompt_tokens)} →{' '}
                    {count(member.completion_tokens)} tokens
                  </span>
                </p>
                {member.text !== null ? (
                  <LongText text={member.text} label={`Answer of ${member.model} in ${stage.id}`} />
                ) : (
                  <p className="reason">{member.error ?? 'It was not asked.'}</p>
                )}
              </li>
            ))}
          </ul>
        </li>
      ))}
    </ol>
  );
}

function voteOf({ n_valid, support, confidence, tie }: Stage): string {
  const parts = [
    typeof n_valid === 'number' ? `${count(n_valid)} usable` : '',
    typeof support === 'number' ? `support ${fixed(support, 1)}` : '',
    typeof confidence === 'number' ? `confidence ${fixed(confidence, 2)}` : '',
    tie ? 'tie' : '',
  ];
  return parts.filter(Boolean).join(' · ');
}
