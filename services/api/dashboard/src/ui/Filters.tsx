/** The filters of a list of runs, as chips that can be removed, and a field that adds one. */
import { Button, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { X } from 'lucide-react';
import { useId, useState } from 'react';
import { columnsQuery } from '../api/listing';

interface Props {
  where: readonly string[];
  change: (where: string[]) => void;
}

export function Filters({ where, change }: Props) {
  const [text, setText] = useState('');
  const list = useId();
  const { data } = useQuery(columnsQuery);
  const add = () => {
    const filter = text.trim();
    if (filter !== '' && !where.includes(filter)) change([...where, filter]);
    setText('');
  };
  return (
    <form
      className="filters"
      aria-label="Filters"
      onSubmit={(event) => {
        event.preventDefault();
        add();
      }}
    >
      {where.map((filter) => (
        <Button
          key={filter}
          size="compact-xs"
          variant="light"
          rightSection={<X size={12} aria-hidden="true" />}
          aria-label={`Remove the filter ${filter}`}
          onClick={() => change(where.filter((known) => known !== filter))}
        >
          <bdi>{filter}</bdi>
        </Button>
      ))}
      <TextInput
        size="xs"
        list={list}
        className="filter-field"
        aria-label="Add a filter"
        placeholder="Filter, such as metrics.anls>=0.8"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        maxLength={200}
      />
      <datalist id={list}>
        {(data?.columns ?? []).map((column) => (
          <option key={column.name} value={column.is_number ? `${column.name}>=` : `${column.name}=`} />
        ))}
      </datalist>
      <Button size="xs" variant="default" type="submit" disabled={text.trim() === ''}>
        Add
      </Button>
    </form>
  );
}
