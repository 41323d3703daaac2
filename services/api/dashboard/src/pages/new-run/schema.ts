/** Read a JSON Schema as a form does: which kind of input a property is, with its label and its text. Pure. */
import { words } from '../../ui/format';

export interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema>;
  type?: string;
  title?: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  oneOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
}

export type Input = 'number' | 'flag' | 'choice' | 'text' | 'lines' | 'json' | 'group';

export interface Field {
  key: string;
  label: string;
  description: string;
  isRequired: boolean;
  input: Input;
  choices: string[];
  /** What the fields of a group are. */
  schema: Schema;
}

/** The schema that a reference stands for. */
export function resolved(schema: Schema, root: Schema): Schema {
  const name = schema.$ref?.replace('#/$defs/', '');
  return name === undefined ? schema : (root.$defs?.[name] ?? {});
}

/** The alternatives of a schema other than null, references resolved; one of itself where it has none. */
export function alternatives(schema: Schema, root: Schema): Schema[] {
  const parts = schema.anyOf ?? schema.oneOf;
  if (parts === undefined) return [resolved(schema, root)];
  return parts.filter((part) => part.type !== 'null').flatMap((part) => alternatives(part, root));
}

/** The alternative that is an object with properties, such as the long form of a choice. */
export function objectOf(schema: Schema, root: Schema): Schema | undefined {
  return alternatives(schema, root).find((part) => part.properties !== undefined);
}

export function fieldsOf(schema: Schema, root: Schema): Field[] {
  return Object.entries(schema.properties ?? {}).map(([key, property]) => {
    const parts = alternatives(property, root);
    return {
      key,
      label: labelOf(key),
      description: property.description ?? (parts.length === 1 ? parts[0]?.description : undefined) ?? '',
      isRequired: schema.required?.includes(key) ?? false,
      input: inputOf(parts),
      choices: parts.flatMap((part) => part.enum ?? []).map(String),
      schema: objectOf(property, root) ?? parts[0] ?? {},
    };
  });
}

function inputOf(parts: Schema[]): Input {
  const first = parts[0];
  if (parts.length > 1) return parts.some((part) => part.type === 'object') ? 'json' : 'text';
  if (first?.enum) return 'choice';
  switch (first?.type) {
    case 'integer':
    case 'number':
      return 'number';
    case 'boolean':
      return 'flag';
    case 'string':
      return 'text';
    case 'array':
      return first.items?.type === 'string' ? 'lines' : 'json';
    default:
      return first?.properties ? 'group' : 'json';
  }
}

function labelOf(key: string): string {
  const text = words(key);
  return text.charAt(0).toUpperCase() + text.slice(1);
}
