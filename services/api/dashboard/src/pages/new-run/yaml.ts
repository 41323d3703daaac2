/** Write an entry as YAML of the subset that the registry reads. It is read again by the API only. */
import { isObject, type Json } from './entry';

const PLAIN = /^[A-Za-z][A-Za-z0-9_./@-]*( [A-Za-z0-9_./@-]+)*$/;
const RESERVED = /^(null|true|false)$/i;

export function toYaml(value: { [key: string]: Json }): string {
  return Object.entries(value)
    .map(([key, part]) => pair(key, part, ''))
    .join('');
}

function pair(key: string, value: Json, indent: string): string {
  return `${indent}${scalar(key)}:${rest(value, indent)}`;
}

function rest(value: Json, indent: string): string {
  if (Array.isArray(value) && value.length > 0) {
    return `\n${value.map((item) => `${indent}  -${element(item, `${indent}    `)}`).join('')}`;
  }
  if (isObject(value) && Object.keys(value).length > 0) {
    return `\n${Object.entries(value)
      .map(([key, part]) => pair(key, part, `${indent}  `))
      .join('')}`;
  }
  return ` ${scalar(value)}\n`;
}

function element(value: Json, indent: string): string {
  if (!isObject(value) || Object.keys(value).length === 0) return rest(value, indent.slice(2));
  return ` ${Object.entries(value)
    .map(([key, part], index) => pair(key, part, index === 0 ? '' : indent).replace(/^/, ''))
    .join('')}`;
}

function scalar(value: Json): string {
  if (typeof value === 'string' && PLAIN.test(value) && !RESERVED.test(value)) return value;
  return JSON.stringify(value);
}
