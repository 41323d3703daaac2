/** Ask a pipeline: the base pipeline, or another one that is chosen; why it is blocked, and the session step by step. */
import { NativeSelect } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { Loaded } from '../../ui/Loaded';
import { Empty, WithCode } from '../../ui/Notes';
import { Ask } from './Ask';
import { GraphPicture } from './GraphPicture';
import { type Pipeline, pipelinesQuery } from './queries';
import { pipelines as route } from './route';
import { SessionCard } from './SessionCard';
import { StageList } from './StageList';

const BASE = 'base';

export function BasePipeline() {
  const query = useQuery(pipelinesQuery);
  const search = route.useSearch();
  return (
    <>
      <Loaded query={query} what="pipelines">
        {({ items }) => <Chosen items={items} name={search.pipeline ?? BASE} />}
      </Loaded>
      {search.session ? <SessionCard id={search.session} /> : null}
    </>
  );
}

function Chosen({ items, name }: { items: readonly Pipeline[]; name: string }) {
  const navigate = useNavigate({ from: '/pipelines' });
  const pipeline = items.find((item) => item.name === name);
  const names = items.map((item) => item.name);
  return (
    <>
      <div className="filters">
        <NativeSelect
          size="xs"
          aria-label="Pipeline"
          value={name}
          onChange={(event) => {
            const chosen = event.currentTarget.value;
            void navigate({ search: chosen === BASE ? {} : { pipeline: chosen } });
          }}
          data={[
            { value: BASE, label: names.includes(BASE) ? 'Base pipeline' : 'Base pipeline (there is none)' },
            ...names.filter((known) => known !== BASE),
            ...(names.includes(name) || name === BASE ? [] : [{ value: name, label: `${name} (there is none)` }]),
          ]}
        />
        {pipeline ? (
          <Link to="/pipelines" search={{ tab: 'builder', pipeline: name }}>
            Open in the builder
          </Link>
        ) : null}
        <Link to="/pipelines" search={{ tab: 'history', ...(pipeline && { pipeline: name }) }}>
          Its sessions
        </Link>
      </div>
      {pipeline ? <Present pipeline={pipeline} /> : <Absent name={name} />}
    </>
  );
}

function Absent({ name }: { name: string }) {
  if (name !== BASE) {
    return (
      <Empty title={`There is no pipeline ${name}`}>
        <p className="note-text">Choose another one above, or build it in the manual builder.</p>
      </Empty>
    );
  }
  return (
    <Empty title="There is no base pipeline">
      <p className="note-text">
        The base pipeline is the entry <code>base</code> of the registry, the one that this page opens with. Import it
        with <code>vlmhyperbench models import models.yaml --pipelines pipeline.yaml</code>, or{' '}
        <Link to="/pipelines" search={{ tab: 'builder', name: BASE }}>
          build it here
        </Link>
        . Any other pipeline can be asked meanwhile: choose it above.
      </p>
    </Empty>
  );
}

function Present({ pipeline }: { pipeline: Pipeline }) {
  const { blocked = [], doubts = [], warnings = [], stages = [] } = pipeline;
  return (
    <div className="grid wide">
      <section className="card" aria-label="Pipeline">
        <header>
          <h2>
            <bdi>{pipeline.name}</bdi>
          </h2>
          <span className={`badge ${blocked.length > 0 ? 'bad' : 'good'}`}>
            {blocked.length > 0 ? '✕ blocked' : '✓ can be asked'}
          </span>
        </header>
        <div className="body stack">
          {pipeline.description ? <p>{pipeline.description}</p> : null}
          <Reasons title="It is blocked:" reasons={blocked} tone="reason" />
          <Reasons title="It goes on without these optional models:" reasons={warnings} tone="sub" />
          <Reasons title="These models may have to be loaded smaller, or may not fit:" reasons={doubts} tone="sub" />
          <GraphPicture
            stages={stages.map(({ id, input_from, models, aggregation }) => ({
              id,
              inputs: input_from,
              models,
              ...(aggregation && { aggregation }),
            }))}
          />
          <StageList stages={stages} />
        </div>
      </section>
      <Ask pipeline={pipeline.name} isBlocked={blocked.length > 0} />
    </div>
  );
}

function Reasons({ title, reasons, tone }: { title: string; reasons: readonly string[]; tone: string }) {
  if (reasons.length === 0) return null;
  return (
    <div className={tone} role={tone === 'reason' ? 'alert' : undefined}>
      <p>{title}</p>
      <ul>
        {reasons.map((reason) => (
          <li key={reason}>
            <bdi>
              <WithCode text={reason} />
            </bdi>
          </li>
        ))}
      </ul>
    </div>
  );
}
