/** The typed client of the REST API: the page's token on every request, and one kind of error. */
import createClient, { type Middleware } from 'openapi-fetch';
import type { components, paths } from './schema';
import { dropToken, setEnded, token } from './session';

export type Schemas = components['schemas'];

/** One thing that is wrong; problem bodies are not in the API's description. */
export interface ErrorItem {
  message: string;
  field?: string | null;
  line?: number | null;
  cure?: string;
}

interface ApiErrorParts {
  status: number;
  code: string;
  cure: string;
  items?: readonly ErrorItem[];
}

/** An error of the API, or of the way to it. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly cure: string;
  /** Each thing that is wrong, with its field or line. */
  readonly items: readonly ErrorItem[];

  constructor(message: string, { status, code, cure, items = [] }: ApiErrorParts) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
    this.code = code;
    this.cure = cure;
    this.items = items;
  }
}

const signed: Middleware = {
  onRequest({ request }) {
    const value = token();
    if (value) request.headers.set('X-CSRF-Token', value);
    return request;
  },
  onResponse({ response }) {
    if (response.status === 401) setEnded(true);
    else if (response.ok) setEnded(false);
    return response;
  },
};

export const api = createClient<paths>({ baseUrl: window.location.origin });
api.use(signed);

interface Answer<Data> {
  data?: Data;
  error?: unknown;
  response: Response;
}

/** Return the body of a response, or throw what went wrong as an `ApiError`. */
export async function body<Data>(asking: Promise<Answer<Data>>): Promise<Data> {
  let answer: Answer<Data>;
  try {
    answer = await asking;
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === 'AbortError') throw cause;
    return unreachable();
  }
  if (answer.response.ok && answer.data !== undefined) return answer.data;
  throw problemOf(answer.response.status, answer.error);
}

/** End the session of this browser; 401 says that it has ended already. */
export async function signOut(): Promise<void> {
  const { response, error } = await api.DELETE('/api/v1/session').catch(unreachable);
  if (!response.ok && response.status !== 401) throw problemOf(response.status, error);
  dropToken();
  setEnded(true);
}

function unreachable(): never {
  const cure = 'Check that the stack runs: vlmhyperbench status. This page tries again by itself.';
  throw new ApiError('The API does not answer.', { status: 0, code: 'unreachable', cure });
}

function problemOf(status: number, error: unknown): ApiError {
  const problem = typeof error === 'object' && error !== null ? (error as Record<string, unknown>) : {};
  const text = (name: string, otherwise: string) => {
    const value = problem[name];
    return typeof value === 'string' && value !== '' ? value : otherwise;
  };
  return new ApiError(text('message', `The API answered ${status}.`), {
    status,
    code: text('code', 'error'),
    cure: text('cure', ''),
    items: Array.isArray(problem.errors) ? (problem.errors as ErrorItem[]) : [],
  });
}
