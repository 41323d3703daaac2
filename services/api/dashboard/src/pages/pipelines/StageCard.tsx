/** One stage of the pipeline that is built: its place, what it gets, whom it asks, and what is wrong with it. */
import { ActionIcon, Checkbox, NativeSelect, Textarea, TextInput } from '@mantine/core';
import { ArrowDown, ArrowUp, GripVertical, Link2, X } from 'lucide-react';
import { type DragEvent, type KeyboardEvent, useState } from 'react';
import { WithCode } from '../../ui/Notes';
import { AggregationFields } from './AggregationFields';
import type { Stage, StageType } from './draft';
import { drag, type Kind, kindOf, MODEL, OUTPUT, STAGE, touchDrag, useTouchDrop } from './dragging';
import { Members } from './Members';
import type { Check } from './queries';
import { Sampling } from './Sampling';

interface Props {
  stage: Stage;
  at: number;
  stages: readonly Stage[];
  problems: Check['problems'];
  change: (change: Partial<Stage>) => void;
  connect: (input: string, isConnected: boolean) => void;
  addModel: (model: string) => void;
  move: (from: number, to: number) => void;
  remove: () => void;
}

export function StageCard({ stage, at, stages, problems, change, connect, addModel, move, remove }: Props) {
  const [over, setOver] = useState('');
  const name = stage.id || `number ${at + 1}`;
  const drop = (event: DragEvent) => {
    const kind = kindOf(event, [STAGE, OUTPUT, MODEL]);
    setOver('');
    if (kind === undefined) return;
    event.preventDefault();
    take(kind, event.dataTransfer.getData(kind));
  };
  const take = (kind: Kind, value: string) => {
    if (kind === STAGE) move(Number(value), at);
    else if (kind === OUTPUT) connect(value, true);
    else addModel(value);
  };
  const target = useTouchDrop<HTMLLIElement>(take);
  const moveByKey = (event: KeyboardEvent) => {
    const by = event.key === 'ArrowUp' ? -1 : event.key === 'ArrowDown' ? 1 : 0;
    if (by === 0) return;
    event.preventDefault();
    move(at, at + by);
  };
  return (
    <li
      ref={target}
      data-takes-drops
      className={`card stage-card ${over ? 'over' : ''} ${problems.length > 0 ? 'wrong-stage' : ''}`}
      aria-label={`Stage ${name}`}
      onDragOver={(event) => {
        const kind = kindOf(event, [STAGE, OUTPUT, MODEL]);
        if (kind === undefined) return;
        event.preventDefault();
        setOver(kind);
      }}
      onDragLeave={() => setOver('')}
      onDrop={drop}
    >
      <div className="stage-head">
        <ActionIcon
          variant="default"
          className="grip"
          draggable
          onDragStart={(event) => drag(event, STAGE, `${at}`)}
          {...touchDrag(STAGE, `${at}`)}
          onKeyDown={moveByKey}
          aria-label={`Move ${name}: drag it, or press arrow up or down`}
        >
          <GripVertical size={14} aria-hidden="true" />
        </ActionIcon>
        <span className="badge">{at + 1}</span>
        <TextInput
          size="xs"
          id={`id-${stage.key}`}
          aria-label={`Id of stage ${at + 1}`}
          value={stage.id}
          onChange={(event) => change({ id: event.currentTarget.value })}
          maxLength={100}
        />
        <NativeSelect
          size="xs"
          aria-label={`Type of ${name}`}
          value={stage.type}
          onChange={(event) => change(typed(stage, event.currentTarget.value as StageType))}
          data={[
            { value: 'single', label: 'one model' },
            { value: 'multi', label: 'several models' },
            { value: 'translate', label: 'translation' },
          ]}
        />
        <span className="end filters">
          <ActionIcon
            variant="default"
            draggable
            className="grip"
            onDragStart={(event) => drag(event, OUTPUT, stage.id)}
            {...touchDrag(OUTPUT, stage.id)}
            onClick={() => {
              const next = stages[at + 1];
              if (next) document.getElementById(`inputs-${next.key}`)?.querySelector('input')?.focus();
            }}
            aria-label={`Answer of ${name}: drag it to a stage that gets it`}
            title="Drag the answer to a stage that gets it; a click goes to the inputs of the next stage"
          >
            <Link2 size={14} aria-hidden="true" />
          </ActionIcon>
          <ActionIcon
            variant="default"
            disabled={at === 0}
            onClick={() => move(at, at - 1)}
            aria-label={`Move ${name} up`}
          >
            <ArrowUp size={14} aria-hidden="true" />
          </ActionIcon>
          <ActionIcon
            variant="default"
            disabled={at === stages.length - 1}
            onClick={() => move(at, at + 1)}
            aria-label={`Move ${name} down`}
          >
            <ArrowDown size={14} aria-hidden="true" />
          </ActionIcon>
          <ActionIcon variant="default" onClick={remove} aria-label={`Remove ${name}`}>
            <X size={14} aria-hidden="true" />
          </ActionIcon>
        </span>
      </div>
      <div className="body stack">
        {problems.length > 0 ? (
          <ul className="wrong" aria-label={`What is wrong in ${name}`}>
            {problems.map((problem) => (
              <li key={`${problem.field} ${problem.message}`}>
                <code>{problem.field.replace(/^stages\.\d+\.?/, '') || 'stage'}</code> {problem.message}{' '}
                <WithCode text={problem.cure ?? ''} />
              </li>
            ))}
          </ul>
        ) : null}
        <Inputs stage={stage} at={at} stages={stages} connect={connect} name={name} />
        <Members stage={stage} name={name} change={change} addModel={addModel} />
        {stage.type === 'translate' ? (
          <div className="field-row">
            <TextInput
              size="xs"
              label="From"
              aria-label={`From: source language of ${name}`}
              value={stage.source}
              onChange={(event) => change({ source: event.currentTarget.value })}
            />
            <TextInput
              size="xs"
              label="To"
              aria-label={`To: target language of ${name}`}
              value={stage.target}
              onChange={(event) => change({ target: event.currentTarget.value })}
            />
          </div>
        ) : null}
        {stage.type === 'multi' ? <AggregationFields stage={stage} name={name} change={change} /> : null}
        <details>
          <summary>Instructions and sampling of {name}</summary>
          <div className="stack">
            <Textarea
              size="xs"
              label="Instructions"
              description="They stand before what the stage gets."
              aria-label={`Instructions of ${name}`}
              value={stage.instructions}
              onChange={(event) => change({ instructions: event.currentTarget.value })}
              autosize
              minRows={2}
              maxRows={10}
              dir="auto"
            />
            <Textarea
              size="xs"
              label="System prompt"
              description="In the place of the task's."
              aria-label={`System prompt of ${name}`}
              value={stage.system}
              onChange={(event) => change({ system: event.currentTarget.value })}
              autosize
              minRows={1}
              maxRows={10}
              dir="auto"
            />
            <Checkbox
              size="xs"
              label="Its answer is passed on with the question before it"
              checked={stage.forwardsQuestion}
              onChange={(event) => change({ forwardsQuestion: event.currentTarget.checked })}
            />
            <Sampling stage={stage} name={name} change={change} />
          </div>
        </details>
      </div>
    </li>
  );
}

interface InputsProps extends Pick<Props, 'stage' | 'at' | 'stages' | 'connect'> {
  name: string;
}

/** What a stage gets: the question, or the answers of other stages; those that come later are shown to be wrong. */
function Inputs({ stage, at, stages, connect, name }: InputsProps) {
  const earlier = stages.slice(0, at).map(({ id }) => id);
  const offered = [...new Set([...earlier, ...stage.inputs])].filter((id) => id !== '');
  return (
    <fieldset className="inputs" id={`inputs-${stage.key}`}>
      <legend className="sub">{name} gets</legend>
      {offered.length === 0 ? <span className="badge">the question</span> : null}
      {offered.map((id) => (
        <Checkbox
          key={id}
          size="xs"
          label={`the answer of ${id}`}
          checked={stage.inputs.includes(id)}
          onChange={(event) => connect(id, event.currentTarget.checked)}
        />
      ))}
    </fieldset>
  );
}

/** Change the type of a stage: one model is kept where it can have only one. */
function typed(stage: Stage, type: StageType): Partial<Stage> {
  return type === 'multi' ? { type } : { type, members: stage.members.slice(0, 1) };
}
