/** One sample of a run: its page with boxes, prompt, answer, metrics with the compared texts, timing; and its neighbours. */
import { Button, Tooltip } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { Fragment, type ReactNode, useEffect, useMemo } from 'react';
import { runQuery } from '../../api/queries';
import { baselineQuery, type SampleDetail, sampleQuery } from '../../api/samples';
import { useKeys } from '../../app/keys';
import { count, milliseconds, score, words } from '../../ui/format';
import { Json } from '../../ui/Json';
import { Loaded } from '../../ui/Loaded';
import { useTitle } from '../../ui/useTitle';
import { FlipBadge } from '../run/FlipBadge';
import type { SampleSearch } from '../run/selection';
import { boxesOf } from './boxes';
import { LongText } from './LongText';
import { Members } from './Members';
import { Metrics } from './Metrics';
import { PageImage } from './PageImage';
import { sample as route } from './route';
import { Waterfall } from './Waterfall';
import './style.css';

export function SamplePage() {
  const { id, sid } = route.useParams();
  const search = route.useSearch();
  const run = useQuery(runQuery(id));
  const query = useQuery(sampleQuery(id, sid, search));
  useTitle(`Sample ${sid}${run.data ? ` · ${run.data.name}` : ''}`);
  return (
    <div className="page">
      <p className="sub">
        <Link to="/runs/$id" params={{ id }} search={{ ...search, tab: 'samples' }}>
          ← Samples of <bdi>{run.data?.name ?? 'the run'}</bdi>
        </Link>
        {search.where || search.q || search.order ? ' that pass the filters, in their order' : ''}
      </p>
      <Loaded query={query} what="the sample" isPage>
        {(sample) => (
          <>
            <Head sample={sample} run={id} search={search} />
            <Content sample={sample} run={id} search={search} />
          </>
        )}
      </Loaded>
    </div>
  );
}

const MOVES = [
  { name: 'previous', key: 'k', label: 'Previous' },
  { name: 'next', key: 'j', label: 'Next' },
  { name: 'next_error', key: 'n', label: 'Next error' },
  { name: 'next_wrong', key: 'w', label: 'Next wrong' },
  { name: 'next_flip', key: 'f', label: 'Next flip' },
] as const;

interface Props {
  sample: SampleDetail;
  run: string;
  search: SampleSearch;
}

function Head({ sample, run, search }: Props) {
  const { result, neighbours } = sample;
  const navigate = useNavigate();
  const keys = useMemo(
    () =>
      Object.fromEntries(
        MOVES.map(({ name, key }) => [
          key,
          () => {
            const sid = neighbours[name];
            if (sid) void navigate({ to: '/runs/$id/samples/$sid', params: { id: run, sid }, search });
          },
        ]),
      ),
    [neighbours, navigate, run, search],
  );
  useKeys(keys);
  const queries = useQueryClient();
  const { next } = neighbours;
  useEffect(() => {
    if (next) void queries.prefetchQuery(sampleQuery(run, next, search));
  }, [next, queries, run, search]);
  const moves = MOVES.filter(({ name }) => name !== 'next_flip' || search.against);
  return (
    <div className="page-head">
      <h1>
        <bdi>{result.key ?? sample.id}</bdi>
      </h1>
      {result.outcome === 'answered' ? (
        <span className="badge good">✓ answered</span>
      ) : (
        <span className="badge bad">✕ {words(result.outcome)}</span>
      )}
      <FlipBadge flip={sample.flip ?? null} isWhole />
      <nav className="right" aria-label="Other samples">
        {moves.map(({ name, key, label }) => {
          const sid = neighbours[name];
          return sid ? (
            <Tooltip key={name} label={`Key ${key}`}>
              <Button
                size="xs"
                variant="default"
                renderRoot={(props) => (
                  <Link to="/runs/$id/samples/$sid" params={{ id: run, sid }} search={search} {...props} />
                )}
              >
                {label}
              </Button>
            </Tooltip>
          ) : (
            <Button key={name} size="xs" variant="default" disabled>
              {label}
            </Button>
          );
        })}
      </nav>
    </div>
  );
}

function Content({ sample, run, search }: Props) {
  const { result } = sample;
  const boxes = useMemo(() => boxesOf(sample.metadata), [sample.metadata]);
  const images = [...new Set(sample.sent_images)];
  return (
    <div className={images.length > 0 ? 'sample-page' : ''}>
      {images.length > 0 ? (
        <div className="sample-images">
          {images.map((sha256, no) => (
            <section key={sha256} className="card" aria-label={`Image ${no + 1}`}>
              <PageImage
                address={`/api/v1/runs/${run}/images/${sha256}`}
                label={`Image ${no + 1} of ${result.key ?? sample.id}`}
                boxes={no === 0 ? boxes : []}
              />
            </section>
          ))}
        </div>
      ) : null}
      <div className="stack">
        {result.error ? (
          <Card title="Error">
            <LongText text={result.error} label="Message of the error" />
            <p className="sub">
              {words(result.error_code ?? '')}
              {sample.http_status ? ` · HTTP ${sample.http_status}` : ''} · {count(sample.tries)}{' '}
              {sample.tries === 1 ? 'try' : 'tries'}
            </p>
          </Card>
        ) : null}
        <Answer sample={sample} />
        <Baseline sample={sample} search={search} />
        {sample.pipeline || (sample.members ?? []).length > 0 ? (
          <Card title="Pipeline" note="what each of its models answered">
            <Members pipeline={sample.pipeline} members={sample.members ?? []} />
          </Card>
        ) : null}
        <section className="card" aria-label="Metrics">
          <header>
            <h2>Metrics</h2>
            <span className="sub">what was compared, after each metric’s normalisation</span>
          </header>
          <Metrics traces={sample.traces} />
        </section>
        <Prompt sample={sample} />
        <Card title="Timing">
          <Waterfall timing={sample.timing} tries={sample.tries} isCombined={sample.result.is_combined ?? false} />
        </Card>
        <Facts sample={sample} run={run} />
      </div>
    </div>
  );
}

function Card({ title, note, children }: { title: string; note?: string; children: ReactNode }) {
  return (
    <section className="card" aria-label={title}>
      <header>
        <h2>{title}</h2>
        {note ? <span className="sub">{note}</span> : null}
      </header>
      <div className="body">{children}</div>
    </section>
  );
}

function Answer({ sample: { result, parsed } }: { sample: SampleDetail }) {
  const others = parsed.filter(({ text }) => text !== result.text);
  return (
    <Card title="Answer" note={result.finish_reason ? `ended by ${words(result.finish_reason)}` : ''}>
      {result.text === null ? (
        <p className="none">There is no answer.</p>
      ) : (
        <LongText key={result.text} text={result.text} label="Answer as it came" />
      )}
      {others.map(({ extractor, text, reason }) => (
        <div key={extractor}>
          <h3>Parsed by {extractor}</h3>
          {text === null ? (
            <p>
              <span className="badge warn">! not parsed</span> <bdi>{reason}</bdi>
            </p>
          ) : (
            <LongText key={text} text={text} label={`Answer parsed by ${extractor}`} />
          )}
        </div>
      ))}
      {result.reasoning ? (
        <details>
          <summary>Reasoning</summary>
          <LongText text={result.reasoning} label="Reasoning" />
        </details>
      ) : null}
    </Card>
  );
}

function Baseline({ sample, search: { against } }: { sample: SampleDetail; search: SampleSearch }) {
  const { result } = sample;
  const query = useQuery(baselineQuery(against, result.key, result.repeat));
  if (!against) return null;
  return (
    <Card title="Answer of the baseline">
      {query.isEnabled === false ? (
        <p className="sub">Its key cannot be looked up in the baseline.</p>
      ) : (
        <Loaded query={query} what="the baseline’s answer">
          {(row) =>
            row === null ? (
              <p className="sub">The baseline has no such sample.</p>
            ) : (
              <p>
                <Link to="/runs/$id/samples/$sid" params={{ id: against, sid: row.id }}>
                  <bdi>{row.text ?? words(row.error_code ?? row.outcome)}</bdi>
                </Link>{' '}
                <span className="sub">
                  {row.value === null ? 'without a value' : score(row.value)} · {milliseconds(row.latency_ms)}
                </span>
              </p>
            )
          }
        </Loaded>
      )}
    </Card>
  );
}

function Prompt({ sample }: { sample: SampleDetail }) {
  const { result, system_prompt: system, user_prompt: user } = sample;
  return (
    <Card title="Prompt" note="as it was sent">
      {system ? (
        <>
          <h3>System</h3>
          <LongText key={system} text={system} label="System prompt" />
        </>
      ) : null}
      {(sample.examples ?? []).map((example, no) => (
        <Fragment key={example.key}>
          <h3>
            Example {no + 1}: <bdi>{example.key}</bdi>
          </h3>
          <p className="sub">
            {example.images.map((sha256, image) => (
              <span key={sha256} className="badge" title={sha256}>
                image {image + 1}
              </span>
            ))}
          </p>
          <LongText text={example.user_prompt} label={`Prompt of example ${no + 1}`} />
          <LongText text={example.answer} label={`Answer of example ${no + 1}`} />
        </Fragment>
      ))}
      <h3>User</h3>
      {sample.sent_images.length > 0 ? (
        <p className="sub">
          {sample.sent_images.map((sha256, no) => (
            <span key={sha256} className="badge" title={sha256}>
              image {no + 1}
            </span>
          ))}
        </p>
      ) : null}
      {user ? (
        <LongText key={user} text={user} label="User prompt" />
      ) : (
        <p>
          <bdi>{result.question}</bdi> <span className="sub">the question; its rendered prompt was not stored</span>
        </p>
      )}
      <h3>References</h3>
      {result.references.length === 0 ? <p className="none">none</p> : null}
      <ul className="references">
        {result.references.map((reference, no) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: references may be equal, and never move
          <li key={no}>
            <LongText text={reference} label={`Reference ${no + 1}`} />
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Facts({ sample, run }: { sample: SampleDetail; run: string }) {
  const { result } = sample;
  const rest = Object.fromEntries(
    Object.entries(sample.metadata).filter(([name]) => name !== 'boxes' && name !== 'answer_bbox'),
  );
  return (
    <Card title="Facts">
      <dl className="pairs">
        <dt>Address</dt>
        <dd>
          phase {result.phase}, request {result.ordinal}
          {result.repeat ? `, repeat ${result.repeat}` : ''}
        </dd>
        <dt>Tokens</dt>
        <dd>
          {count(result.prompt_tokens)} in, {count(result.completion_tokens)} out
        </dd>
        <dt>Tries</dt>
        <dd>
          {count(sample.tries)}
          {sample.http_status ? ` · HTTP ${sample.http_status}` : ''}
        </dd>
        <dt>Measured by</dt>
        <dd>
          {sample.measured_by === run ? (
            'this run'
          ) : (
            <Link to="/runs/$id" params={{ id: sample.measured_by }}>
              another run, whose answer is reused
            </Link>
          )}
        </dd>
        <dt>Claim</dt>
        <dd className="mono">{sample.claim_id}</dd>
      </dl>
      {Object.keys(rest).length > 0 ? (
        <details>
          <summary>Metadata</summary>
          <Json value={rest} />
        </details>
      ) : null}
    </Card>
  );
}
