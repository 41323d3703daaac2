/** How the dashboard is built: into the API's package, its text in compressed form only, which the API serves. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import react from '@vitejs/plugin-react';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

const OUT = '../vlmhyperbench_api/static';
const COMPRESSED = /\.(js|css|svg)$/;

function compressed(): Plugin {
  return {
    name: 'compressed',
    apply: 'build',
    closeBundle() {
      for (const entry of readdirSync(OUT, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile() || !COMPRESSED.test(entry.name)) continue;
        const path = join(entry.parentPath, entry.name);
        const content = readFileSync(path);
        writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }));
        const params = { [constants.BROTLI_PARAM_QUALITY]: 9 };
        writeFileSync(`${path}.br`, brotliCompressSync(content, { params }));
        rmSync(path);
      }
    },
  };
}

export default defineConfig({
  plugins: [react(), compressed()],
  build: {
    outDir: OUT,
    emptyOutDir: true,
    assetsInlineLimit: 0,
    target: 'es2023',
    // Plotly is one file of this size, loaded only by pages with charts; scripts/budgets.mjs holds the limits.
    chunkSizeWarningLimit: 1300,
    modulePreload: { polyfill: false },
  },
  server: { proxy: { '/api': { target: process.env.VLMHB_URL ?? 'http://127.0.0.1:8760', ws: true } } },
  test: { environment: 'happy-dom', include: ['src/**/*.test.{ts,tsx}'], setupFiles: ['src/test-setup.ts'] },
});
