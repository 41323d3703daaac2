/** The keys of the project, and what a person prefers in this browser. */
import { SegmentedControl } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useTitle } from '../../ui/useTitle';
import { Keys } from './Keys';
import { PreferencesForm } from './PreferencesForm';
import { settings as route } from './route';
import './style.css';

export function SettingsPage() {
  useTitle('Settings');
  const { tab = 'keys' } = route.useSearch();
  const navigate = useNavigate({ from: '/settings' });
  return (
    <div className="page">
      <div className="page-head">
        <h1>Settings</h1>
        <SegmentedControl
          size="xs"
          aria-label="Part of the settings"
          value={tab}
          onChange={(value) => void navigate({ search: value === 'preferences' ? { tab: 'preferences' } : {} })}
          data={[
            { value: 'keys', label: 'Keys' },
            { value: 'preferences', label: 'Preferences' },
          ]}
        />
      </div>
      {tab === 'keys' ? <Keys /> : <PreferencesForm />}
    </div>
  );
}
