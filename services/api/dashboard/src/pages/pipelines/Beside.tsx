/** What becomes of a draft: whether it is valid, what one question would take, its YAML, and where it is saved. */
import { Button, CopyButton } from '@mantine/core';
import { type UseQueryResult, useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { ApiError } from '../../api/client';
import { useAllowed } from '../../ui/allowed';
import { count } from '../../ui/format';
import { Problem, WithCode } from '../../ui/Notes';
import type { Entry } from '../new-run/entry';
import { toYaml } from '../new-run/yaml';
import { ModelShelf } from './ModelShelf';
import { Plan } from './Plan';
import { type Check, pipelinesQuery, useSave } from './queries';

interface Props {
  content: { name: string; entry: Entry };
  check: Pick<UseQueryResult<Check>, 'data' | 'error' | 'refetch'>;
  isBegun: boolean;
  isCurrent: boolean;
  /** Problems that belong to no stage and to no field of the form. */
  general: Check['problems'];
}

export function Beside({ content, check, isBegun, isCurrent, general }: Props) {
  const problems = check.data?.problems ?? [];
  const blocked = check.data?.blocked ?? [];
  const isValid = isBegun && isCurrent && !check.error && problems.length === 0;
  return (
    <>
      <section className="card" aria-label="Check" aria-busy={!isCurrent}>
        <header>
          <h2>Check</h2>
          <span className="sub" role="status">
            {!isBegun
              ? 'nothing to check yet'
              : !isCurrent
                ? 'is being checked …'
                : problems.length === 0
                  ? 'the pipeline is valid'
                  : `${count(problems.length)} ${problems.length === 1 ? 'problem' : 'problems'}, each at its stage`}
          </span>
        </header>
        <div className="body stack">
          {check.error ? <Problem error={check.error} retry={() => void check.refetch()} /> : null}
          {general.length > 0 ? (
            <ul className="wrong" aria-label="What is wrong in the pipeline">
              {general.map((problem) => (
                <li key={`${problem.field} ${problem.message}`}>
                  <code>{problem.field || 'pipeline'}</code> {problem.message} <WithCode text={problem.cure ?? ''} />
                </li>
              ))}
            </ul>
          ) : null}
          {isBegun && blocked.length > 0 ? (
            <div className="stale">
              <p>It can be saved, but would be blocked on this machine:</p>
              <ul>
                {blocked.map((reason) => (
                  <li key={reason}>{reason}</li>
                ))}
              </ul>
            </div>
          ) : null}
          <Save content={content} isValid={isValid} />
        </div>
      </section>
      <ModelShelf />
      <Plan content={content} isValid={isValid} isBegun={isBegun} />
      <YamlCard content={content} isBegun={isBegun} />
    </>
  );
}

function Save({ content, isValid }: { content: Props['content']; isValid: boolean }) {
  const { data } = useQuery(pipelinesQuery);
  const maySave = useAllowed('registry:write');
  const save = useSave();
  const known = data?.items.find((item) => item.name === content.name);
  // An archived entry is in no list, and its name is not free: a new version puts it to use again.
  const isTaken =
    save.error instanceof ApiError && save.error.code === 'name_taken' && save.variables?.name === content.name;
  const isSaved = save.isSuccess && save.variables.yaml === yamlOf(content) && save.variables.name === content.name;
  return (
    <>
      {save.error ? <Problem error={save.error} /> : null}
      <div className="filters">
        <Button
          size="xs"
          disabled={!isValid || content.name === '' || !maySave || known?.origin === 'file'}
          loading={save.isPending}
          onClick={() =>
            save.mutate({ name: content.name, yaml: yamlOf(content), isNew: known === undefined && !isTaken })
          }
        >
          {known?.origin === 'database' || isTaken ? 'Save a new version' : 'Save'}
        </Button>
        {isSaved ? (
          <Link to="/pipelines" search={content.name === 'base' ? {} : { pipeline: content.name }}>
            Ask {content.name}
          </Link>
        ) : (
          <span className="sub">
            {!maySave
              ? 'Your key may not save (registry:write).'
              : content.name === ''
                ? 'Give it a name to save it.'
                : known?.origin === 'file'
                  ? `${content.name} is a file of the registry: choose another name.`
                  : 'as an entry of the registry'}
          </span>
        )}
      </div>
    </>
  );
}

/** The file of the entry. */
function yamlOf({ name, entry }: Props['content']): string {
  return toYaml({ ...(name && { name }), ...entry });
}

function YamlCard({ content, isBegun }: { content: Props['content']; isBegun: boolean }) {
  const text = yamlOf(content);
  const file = `${content.name || 'pipeline'}.yaml`;
  return (
    <section className="card" aria-label="YAML">
      <header>
        <h2>{file}</h2>
        {isBegun ? (
          <span className="end filters">
            <CopyButton value={text}>
              {({ copied, copy }) => (
                <Button size="compact-xs" variant="default" onClick={copy}>
                  {copied ? 'Copied' : 'Copy'}
                </Button>
              )}
            </CopyButton>
            <Button
              size="compact-xs"
              variant="default"
              component="a"
              href={`data:application/yaml;charset=utf-8,${encodeURIComponent(text)}`}
              download={file}
            >
              Download
            </Button>
          </span>
        ) : null}
      </header>
      <div className="body">
        {isBegun ? (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
          <section className="scrolled" tabIndex={0} aria-label="YAML of the pipeline">
            <pre className="fault">{text}</pre>
          </section>
        ) : (
          <p className="sub">It is written while you build.</p>
        )}
      </div>
    </section>
  );
}
