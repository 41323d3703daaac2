/** The entry: takes the token out of the address, then draws the page that the address names. */
import '@fontsource-variable/inter/index.css';
import '@fontsource-variable/jetbrains-mono/index.css';
import '@mantine/core/styles.css';
import '@mantine/notifications/styles.css';
import '@mantine/spotlight/styles.css';
import './app/style.css';
import './app/preferences';
import { MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { openFeed } from './api/live';
import { adoptToken, onSignIn } from './api/session';
import { theme } from './app/theme';
import { queries, router } from './routes';

adoptToken();
openFeed(queries);
onSignIn(() => void queries.refetchQueries());
// Most go from the first page to the runs, whose code and first rows are read while nothing else is to be done.
window.addEventListener('load', () => window.requestIdleCallback?.(() => void router.preloadRoute({ to: '/runs' })));

const place = document.getElementById('root');
if (place === null) throw new Error('The page has no element #root.');
createRoot(place).render(
  <StrictMode>
    <MantineProvider theme={theme} defaultColorScheme="auto">
      <QueryClientProvider client={queries}>
        <Notifications position="bottom-right" limit={3} />
        <RouterProvider router={router} />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
