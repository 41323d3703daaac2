/** The logs of a run's claims: engine, gateway, worker; the end first, any part by its line, and lines that contain a text. */
import { Button, Select, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { Search } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import { api, body, type Schemas } from '../../api/client';
import { isOpen, type RunDetail } from '../../api/queries';
import { bytes, count, shortId } from '../../ui/format';
import { Loaded } from '../../ui/Loaded';
import { Empty } from '../../ui/Notes';
import { LiveLog } from './LiveLog';
import { type RunSearch, run as route } from './route';
import './logs.css';

type LogFile = Schemas['LogFile'];

const OPEN_MS = 5_000;
/** So many lines are shown at once; a log of a million lines is read in such parts. */
export const PART_LINES = 500;
const TYPING_MS = 250;
const WRITERS = ['engine', 'gateway', 'worker'] as const;

export function Logs({ run }: { run: RunDetail }) {
  const { log } = route.useSearch();
  const files = useQuery({
    queryKey: ['logs', run.id, run.state],
    queryFn: ({ signal }) =>
      body(api.GET('/api/v1/runs/{run_id}/logs', { params: { path: { run_id: run.id } }, signal })),
    refetchInterval: isOpen(run) ? OPEN_MS : false,
  });
  return (
    <Loaded query={files} what="the logs">
      {(found) => {
        const now = isOpen(run) ? <LiveLog id={run.id} /> : null;
        if (found.length === 0) {
          return (
            now ?? (
              <Empty title="No log is stored">
                <p className="note-text">The run asked no target itself, or its workers could not store their logs.</p>
              </Empty>
            )
          );
        }
        const file = found.find(({ id }) => id === log) ?? found.find(({ of }) => of === 'engine') ?? found[0];
        return file ? (
          <div className="stack">
            {now}
            <LogView run={run} files={found} file={file} isUnknown={log !== undefined && file.id !== log} />
          </div>
        ) : null;
      }}
    </Loaded>
  );
}

interface Props {
  run: RunDetail;
  files: readonly LogFile[];
  file: LogFile;
  isUnknown: boolean;
}

function LogView({ run, files, file, isUnknown }: Props) {
  const { line, find } = route.useSearch();
  const navigate = useNavigate({ from: '/runs/$id' });
  const change = (part: Partial<RunSearch>) =>
    void navigate({
      search: (old) => without({ ...old, ...part }),
      replace: true,
      resetScroll: false,
    });
  const [written, setWritten] = useState(find ?? '');
  const search = useDebouncedCallback((text: string) => change({ find: text, line: 0 }), TYPING_MS);
  /** A line is shown among its neighbours, not among what was searched. */
  const go = (to: number) => {
    setWritten('');
    change({ line: to, log: file.id, find: '' });
  };
  return (
    <section className="card" aria-label="Log">
      <div className="filters log-head">
        <Select
          size="xs"
          aria-label="Which log"
          value={file.id}
          onChange={(id) => {
            setWritten('');
            if (id) change({ log: id, line: 0, find: '' });
          }}
          allowDeselect={false}
          data={WRITERS.map((writer) => ({
            group: writer,
            items: files
              .filter(({ of }) => of === writer)
              .map((other) => ({
                value: other.id,
                label: `${writer} of claim ${shortId(other.claim_id)} on ${other.host}`,
              })),
          })).filter(({ items }) => items.length > 0)}
          className="log-choice"
        />
        <TextInput
          size="xs"
          aria-label="Lines that contain"
          placeholder="Lines that contain"
          leftSection={<Search size={13} aria-hidden="true" />}
          value={written}
          onChange={(event) => {
            setWritten(event.currentTarget.value);
            search(event.currentTarget.value);
          }}
        />
        <a className="end" href={`/api/v1/artifacts/${file.id}/content`} download={file.name}>
          Download {bytes(file.size_bytes)}
        </a>
      </div>
      {isUnknown ? <p className="stale">The run has no such log; this is another one.</p> : null}
      <Lines run={run} file={file} line={line} find={find} go={go} />
    </section>
  );
}

function without(search: RunSearch): RunSearch {
  return Object.fromEntries(Object.entries(search).filter(([, value]) => value !== '' && value !== 0));
}

interface LinesProps {
  run: RunDetail;
  file: LogFile;
  line: number | undefined;
  find: string | undefined;
  /** Go to a line; 0 goes to the end. */
  go: (line: number) => void;
}

/** The line after which the part begins that shows a line in its middle. */
export function partAt(line: number): number {
  return Math.max(0, line - Math.ceil(PART_LINES / 2));
}

function Lines({ run, file, line, find, go }: LinesProps) {
  const after = line === undefined ? undefined : partAt(line);
  const query = useQuery({
    queryKey: ['log', run.id, file.id, after, find],
    queryFn: ({ signal }) =>
      body(
        api.GET('/api/v1/runs/{run_id}/logs/{artifact_id}', {
          params: {
            path: { run_id: run.id, artifact_id: file.id },
            query: { limit: PART_LINES, ...(after !== undefined && { after }), ...(find && { q: find }) },
          },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
    refetchInterval: isOpen(run) && line === undefined ? OPEN_MS : false,
    staleTime: 60_000,
  });
  return (
    <Loaded query={query} what="the log">
      {({ lines: shown, total, matching }) => {
        const [first, last] = [shown[0]?.no ?? 0, shown.at(-1)?.no ?? 0];
        return (
          <>
            {shown.length === 0 ? (
              <p className="body sub">{find ? 'No line contains this.' : 'There is no such line.'}</p>
            ) : (
              <Part lines={shown} line={line} go={go} />
            )}
            <div className="foot log-foot">
              <span className="sub">
                {matching === null || matching === undefined
                  ? `Lines ${count(first)} to ${count(last)} of ${count(total)}`
                  : `${count(matching)} of ${count(total)} lines contain this`}
              </span>
              <Button size="compact-xs" variant="default" disabled={first <= 1} onClick={() => go(1)}>
                Beginning
              </Button>
              <Button
                size="compact-xs"
                variant="default"
                disabled={first <= 1}
                onClick={() => go(Math.max(1, first - PART_LINES / 2))}
              >
                Earlier
              </Button>
              <Button
                size="compact-xs"
                variant="default"
                disabled={last >= total}
                onClick={() => go(last + PART_LINES / 2)}
              >
                Later
              </Button>
              <Button size="compact-xs" variant="default" disabled={line === undefined} onClick={() => go(0)}>
                End
              </Button>
            </div>
          </>
        );
      }}
    </Loaded>
  );
}

interface PartProps {
  lines: readonly Schemas['LogLine'][];
  line: number | undefined;
  go: (line: number) => void;
}

/** Lines of a log, at their end unless one of them is chosen. */
function Part({ lines, line, go }: PartProps) {
  const place = useRef<HTMLElement>(null);
  const last = lines.at(-1)?.no;
  // biome-ignore lint/correctness/useExhaustiveDependencies: it moves when other lines are shown, not when they are read again
  useEffect(() => {
    const list = place.current;
    if (list === null) return;
    const marked = list.querySelector<HTMLElement>('[aria-current]');
    // Only the list is moved, not the page around it.
    list.scrollTop = marked ? marked.offsetTop - list.clientHeight / 2 : line === undefined ? list.scrollHeight : 0;
  }, [last, line]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section ref={place} className="log" aria-label="Lines" tabIndex={0}>
      <ol>
        {lines.map(({ no, text }) => (
          <li key={no} aria-current={no === line ? 'true' : undefined}>
            <button type="button" onClick={() => go(no)} aria-label={`Line ${no}`}>
              {no}
            </button>
            <bdi>{text}</bdi>
          </li>
        ))}
      </ol>
    </section>
  );
}
