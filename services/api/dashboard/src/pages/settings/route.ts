import { createRoute, lazyRouteComponent } from '@tanstack/react-router';
import { root } from '../../app/root';

const TABS = ['keys', 'preferences'] as const;
export type SettingsTab = (typeof TABS)[number];

export const settings = createRoute({
  getParentRoute: () => root,
  path: '/settings',
  validateSearch: (search: Record<string, unknown>): { tab?: SettingsTab } => {
    const tab = TABS.find((known) => known === search.tab);
    return tab ? { tab } : {};
  },
  component: lazyRouteComponent(() => import('./SettingsPage'), 'SettingsPage'),
});
