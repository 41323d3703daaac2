/** How pages read: errors that a second try cannot mend are shown at once, all others are tried again. */
import { QueryClient } from '@tanstack/react-query';
import { ApiError } from '../api/client';

export function newQueries(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 2_000,
        retry: (failures, error) =>
          !(error instanceof ApiError && error.status >= 400 && error.status < 500) && failures < 2,
      },
    },
  });
}
