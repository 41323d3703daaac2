/** What components expect of a browser and the tests' DOM lacks. */
import { cleanup } from '@testing-library/react';
import { afterEach } from 'vitest';

afterEach(cleanup);

// Text areas that grow listen to the loading of fonts, which jsdom does not have.
Object.defineProperty(document, 'fonts', { value: new EventTarget() });
