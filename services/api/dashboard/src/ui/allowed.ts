/** Whether the session may do something: what it may not do is not offered. */
import { useQuery } from '@tanstack/react-query';
import { sessionQuery } from '../api/queries';

export function useAllowed(scope: string): boolean {
  const { data } = useQuery(sessionQuery);
  return data?.can_write === true && data.scopes.includes(scope);
}
