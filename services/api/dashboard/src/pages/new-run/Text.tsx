/** The entry as text: YAML, which a person may write and the API reads, and the command line; both can be copied. */
import { Button, CopyButton, Textarea } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { ApiError } from '../../api/client';
import { Problem } from '../../ui/Notes';
import type { Entry } from './entry';
import { type Plan, parsedQuery, textOf } from './queries';
import { toYaml } from './yaml';

const DEBOUNCE_MS = 500;

export function Yaml({ entry }: { entry: Entry }) {
  return <Copied title="run.yaml" text={toYaml(entry)} empty="Choose a target and a task." />;
}

interface Writing {
  entry: Entry;
  setEntry: (entry: Entry) => void;
  /** Called with whether the entry is what the text says: nothing else may be started. */
  setIsRead: (isRead: boolean) => void;
}

export function WrittenYaml({ entry, setEntry, setIsRead }: Writing) {
  const [text, setText] = useState(() => toYaml(entry));
  const [isEdited, setIsEdited] = useState(false);
  const [typed] = useDebouncedValue(text, DEBOUNCE_MS);
  const query = useQuery({ ...parsedQuery(typed), enabled: isEdited });
  const read = isEdited && typed === text && !query.error ? query.data : undefined;
  useEffect(() => {
    if (read) setEntry(read);
    setIsRead(!isEdited || read !== undefined);
  }, [read, isEdited, setEntry, setIsRead]);
  const error = typed === text && query.error;
  const items = error instanceof ApiError ? error.items : [];
  return (
    <div className="stack">
      <Textarea
        label="YAML of the run"
        description="As in registries/runs; the API reads it while you write."
        value={text}
        onChange={(event) => {
          setText(event.currentTarget.value);
          setIsEdited(true);
        }}
        classNames={{ input: 'mono' }}
        autosize
        minRows={14}
        maxRows={36}
        spellCheck={false}
        error={error ? 'It is not a run yet; the plan is of what was read last.' : undefined}
      />
      {items.length > 0 ? (
        <ul className="wrong" aria-label="What is wrong in the YAML">
          {items.map((item) => (
            <li key={`${item.line} ${item.field} ${item.message}`}>
              {item.line ? <span className="badge bad">line {item.line}</span> : null}{' '}
              {item.field ? <code>{item.field.replace(/^body\./, '')}</code> : null} {textOf(item)}
            </li>
          ))}
        </ul>
      ) : null}
      {error && items.length === 0 ? <Problem error={error} /> : null}
    </div>
  );
}

export function Command({ plan, isCurrent }: { plan: Plan | undefined; isCurrent: boolean }) {
  const text = isCurrent && plan ? plan.command : '';
  const note = isCurrent && plan?.command_file ? 'with the YAML above in run.yaml' : undefined;
  return <Copied title="Command line" text={text} empty="It is shown once the run is valid." note={note} />;
}

function Copied({
  title,
  text,
  empty,
  note,
}: {
  title: string;
  text: string;
  empty: string;
  note?: string | undefined;
}) {
  return (
    <section className="card" aria-label={title}>
      <header>
        <h2>{title}</h2>
        {note ? <span className="sub">{note}</span> : null}
        {text ? (
          <CopyButton value={text}>
            {({ copied, copy }) => (
              <Button size="compact-xs" variant="default" className="end" onClick={copy}>
                {copied ? 'Copied' : 'Copy'}
              </Button>
            )}
          </CopyButton>
        ) : null}
      </header>
      <div className="body">
        {text ? (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
          <section className="scrolled" tabIndex={0} aria-label={`Text of ${title}`}>
            <pre className="fault">{text}</pre>
          </section>
        ) : (
          <p className="sub">{empty}</p>
        )}
      </div>
    </section>
  );
}
