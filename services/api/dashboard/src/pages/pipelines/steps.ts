/** The steps of sessions: by stage, and side by side for two sessions. Pure. */
import { milliseconds } from '../../ui/format';
import type { SessionDetail, Step } from './queries';

/** How long something took, from seconds. */
export function took(seconds: number | null | undefined): string {
  return milliseconds(seconds === null || seconds === undefined ? null : seconds * 1000);
}

export const ROLE_WORDS: Readonly<Record<string, string>> = { merge: 'merges', repair: 'repairs' };

export type Came = NonNullable<SessionDetail['stages']>[number];

export interface Group {
  id: string;
  steps: Step[];
  /** What the answers came to, once they are combined. */
  came: Came | undefined;
}

export function stepKey(step: Step): string {
  return `${step.stage} ${step.role} ${step.model}`;
}

/** The steps of a session by stage, in their order. */
export function groupsOf(session: SessionDetail): Group[] {
  const groups = new Map<string, Group>();
  for (const step of session.steps) {
    const group = groups.get(step.stage) ?? {
      id: step.stage,
      steps: [],
      came: (session.stages ?? []).find((stage) => stage.id === step.stage),
    };
    group.steps.push(step);
    groups.set(step.stage, group);
  }
  return [...groups.values()];
}

export interface Pair {
  key: string;
  stage: string;
  title: string;
  first: Step | undefined;
  second: Step | undefined;
  /** In what the two differ, in words. */
  differs: string[];
}

/** The steps of two sessions side by side: those of one pipeline by model and role, others where only one has them. */
export function pairsOf(first: SessionDetail, second: SessionDetail): Pair[] {
  const others = new Map(second.steps.map((step) => [stepKey(step), step]));
  const own = first.steps.map((step) => paired(step, others.get(stepKey(step))));
  const known = new Set(first.steps.map(stepKey));
  const left = second.steps.filter((step) => !known.has(stepKey(step))).map((step) => paired(undefined, step));
  return [...own, ...left];
}

function paired(first: Step | undefined, second: Step | undefined): Pair {
  const step = (first ?? second) as Step;
  const role = step.role === 'member' ? '' : ` (${ROLE_WORDS[step.role] ?? step.role})`;
  return {
    key: stepKey(step),
    stage: step.stage,
    title: `${step.stage}: ${step.model}${role}`,
    first,
    second,
    differs: differencesOf(first, second),
  };
}

/** What a reader has to look at: state, prompt, answer and tokens; times always differ, and are shown, not marked. */
function differencesOf(first: Step | undefined, second: Step | undefined): string[] {
  if (first === undefined || second === undefined) return ['only in one of them'];
  const compared: [string, unknown, unknown][] = [
    ['state', first.state, second.state],
    ['prompt', first.prompt, second.prompt],
    ['answer', first.text, second.text],
    ['error', first.error, second.error],
    ['tokens', tokens(first), tokens(second)],
  ];
  return compared.filter(([, one, other]) => (one ?? null) !== (other ?? null)).map(([name]) => name);
}

function tokens(step: Step): string {
  return `${step.prompt_tokens ?? null} ${step.completion_tokens ?? null}`;
}
