/** Show a query in each of its states: loading, failed, shown but out of date, shown. */
import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Loading, Problem, Stale } from './Notes';

interface Props<Data> {
  query: Pick<UseQueryResult<Data>, 'data' | 'error' | 'refetch' | 'dataUpdatedAt'>;
  what: string;
  children: (data: Data) => ReactNode;
}

export function Loaded<Data>({ query, what, children }: Props<Data>) {
  if (query.data === undefined) {
    return query.error ? <Problem error={query.error} retry={() => void query.refetch()} /> : <Loading what={what} />;
  }
  return (
    <>
      {query.error ? <Stale error={query.error} since={query.dataUpdatedAt} /> : null}
      {children(query.data)}
    </>
  );
}
