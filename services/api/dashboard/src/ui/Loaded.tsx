/** Show a query in each of its states: loading, failed, shown but out of date, shown. */
import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Loading, Problem, Stale } from './Notes';

interface Props<Data> {
  query: Pick<UseQueryResult<Data>, 'data' | 'error' | 'refetch' | 'dataUpdatedAt'>;
  what: string;
  /** Whether the page has no heading without the data. */
  isPage?: boolean;
  children: (data: Data) => ReactNode;
}

export function Loaded<Data>({ query, what, isPage, children }: Props<Data>) {
  if (query.data === undefined) {
    if (!query.error) return <Loading what={what} />;
    return <Problem error={query.error} retry={() => void query.refetch()} isPage={isPage} />;
  }
  return (
    <>
      {query.error ? <Stale error={query.error} since={query.dataUpdatedAt} /> : null}
      {children(query.data)}
    </>
  );
}
