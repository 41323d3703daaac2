/** Check the sizes of the build: what the first page loads, and the library of charts, both compressed by gzip. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';

const OUT = '../vlmhyperbench_api/static';
const SHELL_BYTES = 280 * 1024;
const CHARTS_BYTES = 420 * 1024;

const index = readFileSync(join(OUT, 'index.html'), 'utf-8');
const assets = readdirSync(join(OUT, 'assets'))
  .filter((name) => name.endsWith('.gz'))
  .map((name) => name.slice(0, -3));
const compressedBytes = (name) => statSync(join(OUT, 'assets', `${name}.gz`)).size;

/** Files that the browser fetches before the first page is drawn: those of index.html, and what they import at once. */
function loadedAtOnce() {
  const found = new Set([...index.matchAll(/assets\/([\w.-]+\.(?:js|css))/g)].map((match) => match[1]));
  for (const name of found) {
    if (!name.endsWith('.js')) continue;
    const text = gunzipSync(readFileSync(join(OUT, 'assets', `${name}.gz`))).toString();
    for (const match of text.matchAll(/(?:from|import)\s*["']\.\/([\w.-]+\.js)["']/g)) found.add(match[1]);
  }
  return found;
}

const shell = [...loadedAtOnce()];
const charts = assets.filter((name) => /plotly.*\.js$/.test(name));
const sum = (names) => names.reduce((total, name) => total + compressedBytes(name), 0);
const rows = [
  ['shell', sum(shell), SHELL_BYTES],
  ['charts', sum(charts), CHARTS_BYTES],
];
for (const [name, bytes, limit] of rows) {
  console.log(`${name}: ${(bytes / 1024).toFixed(1)} KB gzip of at most ${limit / 1024} KB`);
}
if (charts.length === 0 || shell.length === 0) throw new Error('The build lacks its shell or its charts.');
if (charts.some((name) => shell.includes(name))) throw new Error('The charts are loaded at once instead of lazily.');
const over = rows.filter(([, bytes, limit]) => bytes > limit).map(([name]) => name);
if (over.length > 0) throw new Error(`Over the budget: ${over.join(', ')}.`);
