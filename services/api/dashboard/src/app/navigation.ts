/** The entries of the navigation and the palette, in their order; a page adds one line. */
import { Home, ListChecks, type LucideIcon } from 'lucide-react';

export interface Entry {
  label: string;
  to: string;
  icon: LucideIcon;
  /** The key that opens it after `g`. */
  key: string;
}

export const NAVIGATION: readonly Entry[] = [
  { label: 'Home', to: '/', icon: Home, key: 'h' },
  { label: 'Runs', to: '/runs', icon: ListChecks, key: 'r' },
];
