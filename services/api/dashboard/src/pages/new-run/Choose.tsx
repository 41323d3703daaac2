/** Choose registry entries by name and description; a name that is not in the list may be typed too. */
import { Autocomplete, type ComboboxItem, TagsInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { registryQuery } from '../registry/queries';

interface Shared {
  kind: string;
  label: string;
  description: ReactNode;
  error: string | undefined;
  required: boolean;
  size: 'sm';
}

const MAX_SHOWN = 100;

function useEntries(kind: string) {
  const entries = useQuery(registryQuery).data?.items ?? [];
  const usable = entries.filter((entry) => entry.kind === kind && !entry.problem);
  return {
    names: usable.map((entry) => entry.name),
    about: new Map(usable.map((entry) => [entry.name, entry.description ?? ''])),
  };
}

/** Entries with all words of the search in name or description, those whose name has them first. */
export function found(names: readonly string[], about: ReadonlyMap<string, string>, search: string): string[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (text: string) => words.every((word) => text.toLowerCase().includes(word));
  const byName = names.filter(fits);
  return [...byName, ...names.filter((name) => !byName.includes(name) && fits(`${name} ${about.get(name) ?? ''}`))];
}

function Option({ name, about }: { name: string; about: string }) {
  return (
    <div className="option">
      <bdi className="strong">{name}</bdi>
      {about ? <bdi className="sub">{about}</bdi> : null}
    </div>
  );
}

function props(names: readonly string[], about: ReadonlyMap<string, string>) {
  return {
    data: [...names],
    limit: MAX_SHOWN,
    maxDropdownHeight: 320,
    filter: ({ search, limit }: { search: string; limit: number }) =>
      found(names, about, names.includes(search) ? '' : search)
        .slice(0, limit)
        .map((name): ComboboxItem => ({ value: name, label: name })),
    renderOption: ({ option }: { option: { value: string } }) => (
      <Option name={option.value} about={about.get(option.value) ?? ''} />
    ),
  };
}

export function OneEntry({
  kind,
  value,
  onChange,
  ...shared
}: Shared & { value: string; onChange: (value: string | undefined) => void }) {
  const { names, about } = useEntries(kind);
  return (
    <Autocomplete
      {...shared}
      {...props(names, about)}
      value={value}
      onChange={(text) => onChange(text || undefined)}
      placeholder={shared.required ? 'Name or word of its description' : 'As the task says'}
      clearable
      clearButtonProps={{ 'aria-label': `Clear ${shared.label}` }}
    />
  );
}

export function ManyEntries({
  kind,
  value,
  onChange,
  ...shared
}: Shared & { value: string[]; onChange: (value: string[] | undefined) => void }) {
  const { names, about } = useEntries(kind);
  return (
    <TagsInput
      {...shared}
      {...props(names, about)}
      value={value}
      onChange={(chosen) => onChange(chosen.length > 0 ? chosen : undefined)}
      placeholder={value.length === 0 ? 'As the task says' : ''}
      clearable
      clearButtonProps={{ 'aria-label': `Clear ${shared.label}` }}
    />
  );
}
