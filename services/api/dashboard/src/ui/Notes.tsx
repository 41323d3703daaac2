/** The states of a page without its content: nothing there, still loading, an error with its cure. */
import { Button, Loader } from '@mantine/core';
import type { ReactNode } from 'react';
import { ApiError } from '../api/client';

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="note">
      <h2>{title}</h2>
      {children ? <div className="note-text">{children}</div> : null}
    </div>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <div className="note" role="status">
      <Loader size="sm" aria-hidden="true" />
      <p className="note-text">Loading {what} …</p>
    </div>
  );
}

/** Text in which parts between backticks are shown as code, as the API's cures are written. */
export function WithCode({ text }: { text: string }) {
  const parts = text.split('`').map((part, index) => ({ part, key: `${index}-${part}`, isCode: index % 2 === 1 }));
  return <>{parts.map(({ part, key, isCode }) => (isCode ? <code key={key}>{part}</code> : part))}</>;
}

interface ProblemProps {
  error: unknown;
  retry?: (() => void) | undefined;
  /** Whether it stands in place of a whole page, whose heading it is then. */
  isPage?: boolean | undefined;
}

export function Problem({ error, retry, isPage }: ProblemProps) {
  const Heading = isPage ? 'h1' : 'h2';
  const message = error instanceof Error ? error.message : String(error);
  const cure = error instanceof ApiError ? error.cure : '';
  const parts = error instanceof ApiError && error.items.length > 1 ? error.items : [];
  return (
    <div className="note problem" role="alert">
      <Heading>{message}</Heading>
      {cure ? (
        <p className="note-text">
          <WithCode text={cure} />
        </p>
      ) : null}
      {parts.length > 0 ? (
        <ul className="warnings">
          {parts.map((part) => (
            <li key={`${part.line} ${part.field} ${part.message}`}>
              {part.line ? `Line ${part.line}, ` : ''}
              {part.field ? <code>{part.field}</code> : null} <bdi>{part.message}</bdi>{' '}
              <WithCode text={part.cure ?? ''} />
            </li>
          ))}
        </ul>
      ) : null}
      {retry ? (
        <Button size="xs" variant="default" onClick={retry}>
          Try again
        </Button>
      ) : null}
    </div>
  );
}

/** A line above content that is shown although its newest version could not be read. */
export function Stale({ error, since }: { error: unknown; since: number }) {
  return (
    <p className="stale" role="status">
      Shown as of {new Date(since).toLocaleTimeString()}: {error instanceof Error ? error.message : String(error)}
    </p>
  );
}
