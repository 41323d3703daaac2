/** What components expect of a browser and the tests' DOM lacks. */
import { cleanup } from '@testing-library/react';
import { afterEach } from 'vitest';

afterEach(cleanup);
