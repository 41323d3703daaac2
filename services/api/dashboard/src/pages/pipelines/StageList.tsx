/** The stages of a pipeline: what each gets, which models it asks, and how their answers become one. */
import type { Pipeline } from './queries';

export function StageList({ stages }: { stages: NonNullable<Pipeline['stages']> }) {
  if (stages.length === 0) return null;
  return (
    <ol className="stage-list" aria-label="Stages">
      {stages.map((stage) => (
        <li key={stage.id}>
          <p className="strong">
            <bdi>{stage.id}</bdi> <span className="badge">{stage.type}</span>
          </p>
          <p className="sub">gets {stage.input_from.length > 0 ? stage.input_from.join(' and ') : 'the question'}</p>
          <p className="sub">
            asks <bdi>{stage.models.join(', ')}</bdi>
            {stage.aggregation ? `, then ${stage.aggregation}` : ''}
            {stage.merger ? (
              <>
                {' '}
                by <bdi>{stage.merger}</bdi>
              </>
            ) : null}
          </p>
        </li>
      ))}
    </ol>
  );
}
