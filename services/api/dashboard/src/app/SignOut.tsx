/** Ends the session of this browser, in all its tabs. */
import { UnstyledButton } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { LogOut } from 'lucide-react';
import { ApiError, signOut } from '../api/client';

export function SignOut() {
  const queries = useQueryClient();
  const ending = useMutation({
    mutationFn: signOut,
    // What the pages have read stays in memory until it is asked for again, so that it is forgotten.
    onSuccess: () => queries.removeQueries(),
    onError: (error) => {
      const text = error instanceof ApiError ? `${error.message} ${error.cure}` : String(error);
      notifications.show({ color: 'red', title: 'Not signed out', message: text });
    },
  });
  return (
    <UnstyledButton className="nav-link sign-out" onClick={() => ending.mutate()} disabled={ending.isPending}>
      <LogOut size={16} aria-hidden="true" />
      Sign out
    </UnstyledButton>
  );
}
