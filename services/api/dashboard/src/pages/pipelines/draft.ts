/** A pipeline that is being built: plain JSON, as its entry will be, and how it is changed. Everything here is pure. */
import type { Entry, Json } from '../new-run/entry';
import { isObject } from '../new-run/entry';

export type StageType = 'single' | 'multi' | 'translate';

export interface Member {
  /** Empty for a member that is another pipeline. */
  model: string;
  weight?: number;
  optional?: boolean;
  /** Keys that the form does not show, such as engine_params or pipeline: they stay as they were read. */
  others?: Entry;
}

export interface Aggregation {
  type: string;
  /** The model that merges. */
  model?: string;
  /** All other keys of the entry: params of the aggregation. */
  params: Entry;
}

export interface Stage {
  /** Names the card while the person edits; it is not part of the entry. */
  key: string;
  id: string;
  type: StageType;
  inputs: string[];
  forwardsQuestion: boolean;
  members: Member[];
  aggregation: Aggregation;
  source: string;
  target: string;
  instructions: string;
  system: string;
  generation: Entry;
  /** Keys that the form does not show, such as response_format: they stay as they were read. */
  others: Entry;
}

export interface Draft {
  name: string;
  description: string;
  mode: string;
  stages: Stage[];
  others: Entry;
}

export const EMPTY: Draft = { name: '', description: '', mode: 'auto', stages: [], others: {} };
const KNOWN_STAGE = new Set([
  'id',
  'type',
  'input_from',
  'output_mode',
  'model',
  'models',
  'aggregation',
  'source_language',
  'target_language',
  'instructions',
  'system_prompt',
  'generation',
]);
const KNOWN_ENTRY = new Set(['name', 'version', 'description', 'execution_mode', 'stages']);
const KNOWN_MEMBER = new Set(['model', 'weight', 'optional']);

/** Add a stage at the end; it gets the answer of the one before it. */
export function withStage(draft: Draft, type: StageType, key: string): Draft {
  const ids = new Set(draft.stages.map((stage) => stage.id));
  const wanted = type === 'translate' ? 'translate' : draft.stages.length === 0 ? 'read' : 'answer';
  let id = wanted;
  for (let no = 2; ids.has(id); no += 1) id = `${wanted}-${no}`;
  const last = draft.stages.at(-1);
  return { ...draft, stages: [...draft.stages, { ...blank(key), id, type, inputs: last ? [last.id] : [] }] };
}

export function withoutStage(draft: Draft, at: number): Draft {
  const gone = draft.stages[at]?.id;
  const stages = draft.stages.filter((_, no) => no !== at);
  return {
    ...draft,
    stages: stages.map((stage) => ({ ...stage, inputs: stage.inputs.filter((input) => input !== gone) })),
  };
}

/** Put a stage in another place; its inputs stay as they are, and the API says which come too late now. */
export function moved(draft: Draft, from: number, to: number): Draft {
  const stages = [...draft.stages];
  const [stage] = stages.splice(from, 1);
  if (stage === undefined || to < 0 || to > stages.length) return draft;
  stages.splice(to, 0, stage);
  return { ...draft, stages };
}

/** Change a stage; a new id is written into the stages that it feeds. */
export function changed(draft: Draft, at: number, change: Partial<Stage>): Draft {
  const before = draft.stages[at];
  if (before === undefined) return draft;
  const isShared = draft.stages.filter((stage) => stage.id === before.id).length > 1;
  const renamed = (input: string) => (change.id !== undefined && input === before.id && !isShared ? change.id : input);
  return {
    ...draft,
    stages: draft.stages.map((stage, no) =>
      no === at ? { ...stage, ...change } : { ...stage, inputs: stage.inputs.map(renamed) },
    ),
  };
}

/** Connect a stage to another's answer, or take the connection away; inputs are in the order of the stages. */
export function connected(draft: Draft, at: number, input: string, isConnected: boolean): Draft {
  const stage = draft.stages[at];
  if (stage === undefined || stage.id === input) return draft;
  const chosen = new Set(stage.inputs);
  if (isConnected) chosen.add(input);
  else chosen.delete(input);
  const order = draft.stages.map(({ id }) => id);
  const inputs = [...chosen].sort((first, second) => order.indexOf(first) - order.indexOf(second));
  return changed(draft, at, { inputs });
}

/** Add a model to a stage: in the place of the only one, or beside the others. */
export function withModel(draft: Draft, at: number, model: string): Draft {
  const stage = draft.stages[at];
  if (stage === undefined || model === '') return draft;
  return changed(draft, at, {
    members: stage.type === 'multi' ? [...stage.members, { model }] : [{ model }],
  });
}

/** The entry of the registry: what is as by default is left out. */
export function entryOf(draft: Draft): Entry {
  return {
    ...(draft.description.trim() && { description: draft.description.trim() }),
    ...(draft.mode !== 'auto' && { execution_mode: draft.mode }),
    ...draft.others,
    stages: draft.stages.map(stageOf),
  };
}

function stageOf(stage: Stage): Entry {
  const [input] = stage.inputs;
  return {
    id: stage.id,
    type: stage.type,
    ...(input !== undefined && { input_from: stage.inputs.length === 1 ? input : stage.inputs }),
    ...(stage.forwardsQuestion && { output_mode: 'question_and_answer' }),
    ...modelsOf(stage),
    ...(stage.type === 'translate' && {
      ...(stage.source && { source_language: stage.source }),
      ...(stage.target && { target_language: stage.target }),
    }),
    ...(stage.system && { system_prompt: stage.system }),
    ...(stage.instructions && { instructions: stage.instructions }),
    ...(Object.keys(stage.generation).length > 0 && { generation: stage.generation }),
    ...stage.others,
  };
}

function modelsOf(stage: Stage): Entry {
  const written = stage.members.map((member) => memberOf(member));
  if (stage.type !== 'multi') return written[0] === undefined ? {} : { model: written[0] };
  const { type, model, params } = stage.aggregation;
  return { models: written, aggregation: { type, ...(model && { model }), ...params } };
}

function memberOf({ model, weight, optional, others }: Member): Json {
  const written: Entry = {
    ...(weight !== undefined && weight !== 1 && { weight }),
    ...(optional && { optional }),
    ...others,
  };
  if (Object.keys(written).length === 0) return model;
  return model === '' ? written : { model, ...written };
}

/** What a list calls a member. */
export function nameOf({ model, others = {} }: Member): string {
  return model || `pipeline ${text(others.pipeline)}`;
}

/** Read an entry as a draft: one of the registry has its defaults written out. */
export function draftOf(name: string, entry: Entry): Draft {
  const stages = Array.isArray(entry.stages) ? entry.stages.filter(isObject) : [];
  return {
    name,
    description: text(entry.description),
    mode: text(entry.execution_mode) || 'auto',
    stages: stages.map((stage, no) => readStage(stage, `${no}`)),
    others: rest(entry, KNOWN_ENTRY),
  };
}

function readStage(stage: Entry, key: string): Stage {
  const type = text(stage.type);
  const given = Array.isArray(stage.models) && stage.models.length > 0 ? stage.models : [stage.model];
  const inputs = typeof stage.input_from === 'string' ? [stage.input_from] : stage.input_from;
  return {
    ...blank(key),
    id: text(stage.id),
    type: type === 'multi' || type === 'translate' ? type : 'single',
    inputs: Array.isArray(inputs) ? inputs.map(text) : [],
    forwardsQuestion: stage.output_mode === 'question_and_answer',
    members: given.flatMap((member) => readMember(member)),
    aggregation: readAggregation(stage.aggregation),
    source: text(stage.source_language),
    target: text(stage.target_language),
    instructions: text(stage.instructions),
    system: text(stage.system_prompt),
    generation: isObject(stage.generation) ? stage.generation : {},
    others: rest(stage, KNOWN_STAGE),
  };
}

function readMember(member: Json | undefined): Member[] {
  if (typeof member === 'string') return [{ model: member }];
  if (!isObject(member)) return [];
  const others = rest(member, KNOWN_MEMBER);
  return [
    {
      model: text(member.model),
      ...(typeof member.weight === 'number' && member.weight !== 1 && { weight: member.weight }),
      ...(member.optional === true && { optional: true }),
      ...(Object.keys(others).length > 0 && { others }),
    },
  ];
}

/** A model that merges with params of its own stays among the params, where its whole choice is written. */
function readAggregation(given: Json | undefined): Aggregation {
  if (!isObject(given)) return blank('').aggregation;
  const { type, model, ...params } = given;
  const [merger] = readMember(model);
  const isPlain = merger !== undefined && memberOf(merger) === merger.model && merger.model !== '';
  return {
    type: text(type) || 'vote',
    ...(isPlain && { model: merger.model }),
    params: { ...(merger && !isPlain && { model: memberOf(merger) }), ...stated(params) },
  };
}

/** The keys that are not among the known ones, without those that say nothing. */
function rest(entry: Entry, known: ReadonlySet<string>): Entry {
  const saysNothing = (value: Json) =>
    value === null ||
    value === '' ||
    (Array.isArray(value) && value.length === 0) ||
    (isObject(value) && Object.keys(rest(value, new Set())).length === 0);
  return Object.fromEntries(Object.entries(entry).filter(([key, value]) => !known.has(key) && !saysNothing(value)));
}

/** The values that are stated: an empty text or list among them, as a separator of nothing is one. */
function stated(entry: Entry): Entry {
  return Object.fromEntries(Object.entries(entry).filter(([, value]) => value !== null));
}

function blank(key: string): Stage {
  return {
    key,
    id: '',
    type: 'single',
    inputs: [],
    forwardsQuestion: false,
    members: [],
    aggregation: { type: 'vote', params: {} },
    source: '',
    target: '',
    instructions: '',
    system: '',
    generation: {},
    others: {},
  };
}

function text(value: Json | undefined): string {
  return typeof value === 'string' ? value : '';
}
