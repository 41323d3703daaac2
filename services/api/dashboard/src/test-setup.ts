/** What components expect of a browser and the tests' DOM lacks; a request that no test answers fails it. */
import { cleanup } from '@testing-library/react';
import { afterEach, expect } from 'vitest';

const unanswered: string[] = [];

// There is no API: tests that need one put theirs in the place of this.
globalThis.fetch = (input) => {
  unanswered.push(input instanceof Request ? input.url : String(input));
  return new Promise(() => undefined);
};

afterEach(() => {
  cleanup();
  expect(unanswered.splice(0), 'requests that no test answers').toEqual([]);
});

// Text areas that grow listen to the loading of fonts, which jsdom does not have.
Object.defineProperty(document, 'fonts', { value: new EventTarget() });
