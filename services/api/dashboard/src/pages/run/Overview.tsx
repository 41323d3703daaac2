/** What came out: headline figures, every metric with its interval and groups, errors by kind, the stages. */
import { isOpen, type RunDetail } from '../../api/queries';
import { bytes, count, milliseconds, money, perSecond, shortId, words } from '../../ui/format';
import { Measured } from '../../ui/Measured';
import { Empty } from '../../ui/Notes';
import { Errors } from './Errors';
import { LiveStrip } from './LiveStrip';
import { Quality } from './Quality';
import { Shortages } from './Shortages';
import { Stages } from './Stages';
import { verdictOf } from './verdict';

export function Overview({ run }: { run: RunDetail }) {
  return (
    <div className="stack">
      <p className="verdict">{verdictOf(run)}</p>
      {run.is_degraded ? (
        <p className="stale">
          <span className="badge warn">degraded</span> A model gave up quality, or was left out, so that it fits. Do not
          rank this run against runs that did not; the tab Provenance and the report name each step.
        </p>
      ) : null}
      {run.shortages?.length ? <Shortages shortages={run.shortages} /> : null}
      {run.warnings?.map((warning) => (
        <p key={warning} className="stale">
          <bdi>{warning}</bdi>
        </p>
      ))}
      {isOpen(run) ? <LiveStrip id={run.id} /> : null}
      <Figures run={run} />
      <Stages run={run} />
      {run.quality?.length ? <Quality quality={run.quality} /> : <NoScores run={run} />}
      {run.errors?.length ? <Errors errors={run.errors} /> : null}
    </div>
  );
}

/** A run that works has none yet; one that ended may have none, or have lost its report. */
function NoScores({ run }: { run: RunDetail }) {
  if (isOpen(run)) {
    return (
      <Empty title="No scores yet">
        <p className="note-text">They are here as soon as the run has a report.</p>
      </Empty>
    );
  }
  return (
    <Empty title={run.headline ? 'The report of this run is missing' : 'The run has no scores'}>
      <p className="note-text">
        {run.headline ? (
          <>
            Its file is gone or damaged; the figures above were kept. Write it again:{' '}
            <code>vlmhyperbench report {shortId(run.id)}</code>
          </>
        ) : (
          'It ended before its answers were scored, or its task has no metrics.'
        )}
      </p>
    </Empty>
  );
}

function Figures({ run }: { run: RunDetail }) {
  const { headline } = run;
  const isValid = headline?.validity === 'valid';
  const note = headline?.validity && !isValid ? words(headline.validity) : undefined;
  return (
    <dl className="figures">
      {(headline?.scores ?? []).slice(0, 3).map((score) => (
        <div key={`${score.metric}-${score.evaluation_id}`}>
          <dt>{words(score.metric)}</dt>
          <dd>
            <Measured value={score.value} low={score.ci_low} high={score.ci_high} />
            <small>of {count(score.n)} answers</small>
          </dd>
        </div>
      ))}
      <div>
        <dt>Samples</dt>
        <dd>
          {count(run.done)}
          <small>
            of {count(run.total)}
            {run.failed ? `, ${count(run.failed)} failed` : ''}
          </small>
        </dd>
      </div>
      <div>
        <dt>Latency p50</dt>
        <dd>
          {milliseconds(headline?.latency_p50_ms)}
          <small>p99 {milliseconds(headline?.latency_p99_ms)}</small>
        </dd>
      </div>
      <div>
        <dt>Output</dt>
        <dd>
          {perSecond(headline?.output_tokens_per_s, 'tokens')}
          <small>{note ?? perSecond(headline?.samples_per_s, 'samples')}</small>
        </dd>
      </div>
      <div>
        <dt>Peak memory</dt>
        <dd>
          {bytes(headline?.peak_memory_bytes)}
          <small>{headline?.peak_memory_of ? words(headline.peak_memory_of) : ''}</small>
        </dd>
      </div>
      <div>
        <dt>Cost</dt>
        <dd>
          {money(headline?.cost_total, headline?.cost_currency)}
          <small>{headline?.cost_unknown ? words(headline.cost_unknown) : ''}</small>
        </dd>
      </div>
    </dl>
  );
}
