/** Colours, density, time zone and the default task, kept in this browser. */
import { NativeSelect, SegmentedControl, useMantineColorScheme } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { columnsQuery } from '../../api/listing';
import { setPreferences, usePreferences } from '../../app/preferences';
import { Instant } from '../../ui/Ago';

export function PreferencesForm() {
  const preferences = usePreferences();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const tasks = Object.keys(useQuery(columnsQuery).data?.tasks ?? {});
  const known = preferences.task && !tasks.includes(preferences.task) ? [...tasks, preferences.task] : tasks;
  return (
    <section className="card" aria-label="Preferences">
      <header>
        <h2>Preferences</h2>
        <span className="sub">of this browser</span>
      </header>
      <dl className="body preferences">
        <Choice title="Colours">
          <SegmentedControl
            size="xs"
            aria-label="Colours"
            value={colorScheme}
            onChange={(value) => setColorScheme(value === 'light' ? 'light' : value === 'dark' ? 'dark' : 'auto')}
            data={[
              { value: 'auto', label: "The system's" },
              { value: 'light', label: 'Light' },
              { value: 'dark', label: 'Dark' },
            ]}
          />
        </Choice>
        <Choice title="Density of tables">
          <SegmentedControl
            size="xs"
            aria-label="Density of tables"
            value={preferences.density}
            onChange={(value) => setPreferences({ density: value === 'compact' ? 'compact' : 'comfortable' })}
            data={[
              { value: 'comfortable', label: 'Comfortable' },
              { value: 'compact', label: 'Compact' },
            ]}
          />
        </Choice>
        <Choice title="Time zone">
          <SegmentedControl
            size="xs"
            aria-label="Time zone"
            value={preferences.zone}
            onChange={(value) => setPreferences({ zone: value === 'local' ? 'local' : 'UTC' })}
            data={[
              { value: 'UTC', label: 'UTC' },
              { value: 'local', label: "This browser's" },
            ]}
          />
          <span className="sub">
            now <Instant at={new Date().toISOString()} />
          </span>
        </Choice>
        <Choice title="Task that the leaderboard opens with">
          <NativeSelect
            size="xs"
            aria-label="Task that the leaderboard opens with"
            value={preferences.task}
            onChange={(event) => setPreferences({ task: event.currentTarget.value })}
            data={[{ value: '', label: 'The one with the most runs' }, ...known]}
          />
        </Choice>
      </dl>
    </section>
  );
}

function Choice({ title, children }: { title: string; children: React.ReactNode }) {
  return (
    <div>
      <dt>{title}</dt>
      <dd className="filters">{children}</dd>
    </div>
  );
}
