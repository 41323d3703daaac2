/** What a browser without a session is told: how to get a link that signs in. */
import { Button } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { setEnded } from '../api/session';

export function SignedOut() {
  const queries = useQueryClient();
  const again = () => {
    setEnded(false);
    void queries.resetQueries();
  };
  return (
    <div className="note" role="alert">
      <h1>Sign in with a new link</h1>
      <p className="note-text">
        This browser has no session, or its session has ended: you signed out, or its twelve hours are over. On the
        machine of the stack, run
      </p>
      <pre className="fault">vlmhyperbench open</pre>
      <p className="note-text">
        It opens a link that signs in once. Where there is no browser, <code>vlmhyperbench status</code> prints the
        link. This page then shows what its address names.
      </p>
      <Button size="xs" variant="default" onClick={again}>
        I have signed in
      </Button>
    </div>
  );
}
