/** The entries of the navigation and the palette, in their order; a page adds one line. */
import {
  BookOpen,
  FileText,
  FlaskConical,
  Gauge,
  HeartPulse,
  Home,
  ListChecks,
  type LucideIcon,
  Plus,
  Scale,
  ScatterChart,
  Server,
  Settings,
  Trophy,
  Workflow,
} from 'lucide-react';

export interface Entry {
  label: string;
  to: string;
  icon: LucideIcon;
  /** The key that opens it after `g`. */
  key: string;
}

/** A part of a page, which only the palette lists. */
export interface Place extends Omit<Entry, 'key'> {
  search: Readonly<Record<string, string>>;
}

export const NAVIGATION: readonly Entry[] = [
  { label: 'Home', to: '/', icon: Home, key: 'h' },
  { label: 'Runs', to: '/runs', icon: ListChecks, key: 'r' },
  { label: 'New run', to: '/runs/new', icon: Plus, key: 'n' },
  { label: 'Experiments', to: '/experiments', icon: FlaskConical, key: 'e' },
  { label: 'Compare', to: '/compare', icon: Scale, key: 'c' },
  { label: 'Leaderboard', to: '/leaderboard', icon: Trophy, key: 'l' },
  { label: 'Explore', to: '/explore', icon: ScatterChart, key: 'x' },
  { label: 'Load', to: '/load', icon: Gauge, key: 'o' },
  { label: 'Pipelines', to: '/pipelines', icon: Workflow, key: 'i' },
  { label: 'Workers', to: '/workers', icon: Server, key: 'w' },
  { label: 'Reports', to: '/reports', icon: FileText, key: 'p' },
  { label: 'Registry', to: '/registry', icon: BookOpen, key: 'y' },
  { label: 'Health', to: '/health', icon: HeartPulse, key: 'd' },
  { label: 'Settings', to: '/settings', icon: Settings, key: 's' },
];

export const PLACES: readonly Place[] = [
  { label: 'Pipelines: manual builder', to: '/pipelines', search: { tab: 'builder' }, icon: Workflow },
  { label: 'Pipelines: history', to: '/pipelines', search: { tab: 'history' }, icon: Workflow },
  { label: 'Pipelines: models status', to: '/pipelines', search: { tab: 'models' }, icon: Workflow },
];
