/** An instant as time past, with the exact instant as its title. */
import { ago, instant } from './format';

export function Ago({ at }: { at: string | null | undefined }) {
  return (
    <time dateTime={at ?? undefined} title={instant(at)}>
      {ago(at)}
    </time>
  );
}
