/** What stands around every page: navigation, search, the state of the connection, the colours. */
import { ActionIcon, AppShell, Burger, Kbd, Tooltip, UnstyledButton, useMantineColorScheme } from '@mantine/core';
import { useDisclosure, useHotkeys } from '@mantine/hooks';
import { Link, Outlet, useLocation, useNavigate } from '@tanstack/react-router';
import { CircleHelp, Monitor, Moon, Search, Sun } from 'lucide-react';
import { useEffect } from 'react';
import { useConnection } from '../api/live';
import { useHasEnded } from '../api/session';
import { Help } from './Help';
import icon from './icon.svg';
import { useGoKeys } from './keys';
import { NAVIGATION } from './navigation';
import { openPalette, Palette } from './Palette';
import { SignedOut } from './SignedOut';
import { SignOut } from './SignOut';

const NEXT_SCHEME = { auto: 'light', light: 'dark', dark: 'auto' } as const;
const SCHEME_ICON = { auto: Monitor, light: Sun, dark: Moon } as const;

export function Shell() {
  const [isOpen, { toggle, close }] = useDisclosure(false);
  const [hasHelp, help] = useDisclosure(false);
  const hasEnded = useHasEnded();
  const path = useLocation({ select: (location) => location.pathname });
  const navigate = useNavigate();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the menu of small windows closes when the page changes
  useEffect(close, [path]);
  useHotkeys(
    [
      ['shift+?', help.open],
      ['/', openPalette],
    ],
    ['INPUT', 'TEXTAREA', 'SELECT'],
    false,
  );
  useGoKeys((to) => void navigate({ to }));
  return (
    <AppShell
      header={{ height: 48 }}
      navbar={{ width: 196, breakpoint: 'sm', collapsed: { mobile: !isOpen } }}
      padding={0}
    >
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <AppShell.Header className="bar">
        <Burger opened={isOpen} onClick={toggle} hiddenFrom="sm" size="sm" aria-label="Navigation" />
        <Link to="/" className="brand">
          <img src={icon} alt="" width={22} height={22} />
          VLMHyperBench
        </Link>
        <Connected />
        <UnstyledButton className="find" onClick={openPalette}>
          <Search size={14} aria-hidden="true" />
          <span>Search</span>
          <Kbd size="xs" aria-hidden="true">
            Ctrl K
          </Kbd>
        </UnstyledButton>
        <Scheme />
        <Tooltip label="Keys (?)">
          <ActionIcon variant="subtle" color="gray" onClick={help.open} aria-label="Keys">
            <CircleHelp size={18} />
          </ActionIcon>
        </Tooltip>
      </AppShell.Header>
      <AppShell.Navbar className="nav" aria-label="Pages">
        {NAVIGATION.map(({ label, to, icon: Icon }) => (
          <Link key={to} to={to} activeOptions={{ exact: isAlone(to) }} className="nav-link">
            <Icon size={16} aria-hidden="true" />
            {label}
          </Link>
        ))}
        {hasEnded ? null : <SignOut />}
      </AppShell.Navbar>
      <AppShell.Main id="main" tabIndex={-1}>
        {hasEnded ? <SignedOut /> : <Outlet />}
      </AppShell.Main>
      <Palette />
      <Help opened={hasHelp} onClose={help.close} />
    </AppShell>
  );
}

const CONNECTED = {
  idle: null,
  connecting: null,
  open: { tone: 'good', text: 'Live' },
  reconnecting: { tone: 'warn', text: 'Reconnecting …' },
} as const;

function Connected() {
  const state = CONNECTED[useConnection()];
  return (
    <span className="connected" role="status">
      {state ? (
        <>
          <span className={`dot ${state.tone}`} aria-hidden="true" /> {state.text}
        </>
      ) : null}
    </span>
  );
}

function Scheme() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const Icon = SCHEME_ICON[colorScheme];
  return (
    <Tooltip label={`Colours: ${colorScheme}`}>
      <ActionIcon
        variant="subtle"
        color="gray"
        onClick={() => setColorScheme(NEXT_SCHEME[colorScheme])}
        aria-label={`Colours: ${colorScheme}. Change to ${NEXT_SCHEME[colorScheme]}`}
      >
        <Icon size={18} />
      </ActionIcon>
    </Tooltip>
  );
}

/** Whether a page of the navigation lies below this one, so that only its own address marks it. */
function isAlone(to: string): boolean {
  return to === '/' || NAVIGATION.some((other) => other.to.startsWith(`${to}/`));
}
