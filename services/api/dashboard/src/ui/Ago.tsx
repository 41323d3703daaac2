/** An instant as time past, with the exact instant as its title. */
import { usePreferences } from '../app/preferences';
import { ago, instant } from './format';

export function Ago({ at }: { at: string | null | undefined }) {
  const { zone } = usePreferences();
  return (
    <time dateTime={at ?? undefined} title={instant(at, zone)}>
      {ago(at)}
    </time>
  );
}

/** An exact instant in the time zone that the person prefers. */
export function Instant({ at }: { at: string | null | undefined }) {
  const { zone } = usePreferences();
  return <time dateTime={at ?? undefined}>{instant(at, zone)}</time>;
}
