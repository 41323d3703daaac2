/** The look: one accent, small type with tabular digits, and text colours with the contrast of WCAG AA. */
import { createTheme, type MantineColorsTuple } from '@mantine/core';

const indigo: MantineColorsTuple = [
  '#edf2ff',
  '#dbe4ff',
  '#bac8ff',
  '#91a7ff',
  '#748ffc',
  '#5c7cfa',
  '#4263eb',
  '#3b5bdb',
  '#364fc7',
  '#2b44a8',
];

export const theme = createTheme({
  fontFamily: "'Inter Variable', system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif",
  fontFamilyMonospace: "'JetBrains Mono Variable', ui-monospace, SFMono-Regular, Menlo, Consolas, monospace",
  colors: { indigo },
  primaryColor: 'indigo',
  primaryShade: { light: 7, dark: 6 },
  defaultRadius: 'md',
  fontSizes: { xs: '0.75rem', sm: '0.8125rem', md: '0.875rem', lg: '1rem', xl: '1.25rem' },
  cursorType: 'pointer',
  components: { Notification: { defaultProps: { closeButtonProps: { 'aria-label': 'Close the message' } } } },
});
