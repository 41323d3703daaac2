/** The filters of the samples: outcome, right or wrong, groups, words, order, a baseline, and any other condition. */
import { CloseButton, Select, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { Search } from 'lucide-react';
import { useState } from 'react';
import type { Schemas } from '../../api/client';
import { equalled } from '../../api/filters';
import type { RunDetail } from '../../api/queries';
import { baselinesQuery } from '../../api/samples';
import { count, shortId, words } from '../../ui/format';
import { run as route } from './route';
import { changed, choose, freeFilters, isFilter, type SampleSearch } from './selection';

const TYPING_MS = 200;
const MAX_GROUPS = 3;
const WRONG = [
  { value: 'true', label: 'Wrong' },
  { value: 'false', label: 'Right' },
];
const FLIPS = [
  { value: 'broke,mended', label: 'All flips' },
  { value: 'broke', label: 'Broke' },
  { value: 'mended', label: 'Mended' },
  { value: 'both_wrong', label: 'Both wrong' },
];
const ORDERS = [
  { value: 'value', label: 'Lowest score first' },
  { value: '-value', label: 'Highest score first' },
  { value: '-latency_ms', label: 'Slowest first' },
  { value: '-completion_tokens', label: 'Longest answer first' },
  { value: '-tries', label: 'Most tries first' },
];

interface Props {
  run: RunDetail;
  groups: readonly Schemas['SampleFacet'][];
  columns: readonly string[];
}

export function SampleFilters({ run, groups, columns }: Props) {
  const search = route.useSearch();
  const navigate = useNavigate({ from: '/runs/$id' });
  const change = (part: Partial<SampleSearch>) =>
    void navigate({ search: (old) => changed(old, part), replace: true, resetScroll: false });
  const pick = (column: string) => (value: string | null) => change({ where: choose(search.where, column, value) });
  const facets = groups.filter(({ column }) => column !== 'outcome' && column !== 'error_code');
  const shown = facets.filter(({ values }) => Object.keys(values).length > 1).slice(0, MAX_GROUPS);
  const outcomes = groups.find(({ column }) => column === 'outcome')?.values;
  const known = ['outcome', 'is_wrong', 'flip', ...shown.map(({ column }) => column)];
  const find = useDebouncedCallback((q: string) => change({ q }), TYPING_MS);
  return (
    <div className="filters">
      <TextInput
        size="xs"
        aria-label="Search samples"
        placeholder="Words in key, question or answer"
        leftSection={<Search size={13} aria-hidden="true" />}
        defaultValue={search.q ?? ''}
        onChange={(event) => find(event.currentTarget.value)}
      />
      <Choice
        label="Outcome"
        none="Any outcome"
        value={equalled(search.where, 'outcome')}
        onChange={pick('outcome')}
        data={Object.entries(outcomes ?? {}).map(([value, n]) => ({ value, label: `${words(value)} ${count(n)}` }))}
      />
      <Choice
        label="Right or wrong"
        none="Right or wrong"
        value={equalled(search.where, 'is_wrong')}
        onChange={pick('is_wrong')}
        data={WRONG}
      />
      {shown.map(({ column, values }) => (
        <Choice
          key={column}
          label={words(column.replace(/^group\./, ''))}
          none={`Any ${words(column.replace(/^group\./, ''))}`}
          value={equalled(search.where, column)}
          onChange={pick(column)}
          data={Object.entries(values).map(([value, n]) => ({ value, label: `${value} ${count(n)}` }))}
        />
      ))}
      <Baselines run={run} value={search.against} onChange={(against) => change(withBaseline(search, against))} />
      {search.against ? (
        <Choice
          label="Flips"
          none="Flips or not"
          value={equalled(search.where, 'flip')}
          onChange={pick('flip')}
          data={FLIPS}
        />
      ) : null}
      <Choice
        label="Order"
        none="In the run’s order"
        value={search.order ?? null}
        onChange={(order) => change({ order: order ?? '' })}
        data={ORDERS}
      />
      <Condition columns={columns} add={(filter) => change({ where: [...(search.where ?? []), filter] })} />
      {freeFilters(search.where, known).map((filter) => (
        <span key={filter} className="badge">
          <code>
            <bdi>{filter}</bdi>
          </code>
          <CloseButton
            size="xs"
            aria-label={`Remove the filter ${filter}`}
            onClick={() => change({ where: (search.where ?? []).filter((other) => other !== filter) })}
          />
        </span>
      ))}
    </div>
  );
}

/** Without a baseline there are no flips to filter by. */
function withBaseline(search: SampleSearch, against: string | null): Partial<SampleSearch> {
  return against ? { against } : { against: '', where: choose(search.where, 'flip', null) };
}

interface ChoiceProps {
  label: string;
  none: string;
  value: string | null;
  onChange: (value: string | null) => void;
  data: { value: string; label: string }[];
}

function Choice({ label, none, value, onChange, data }: ChoiceProps) {
  const isKnown = value === null || data.some((option) => option.value === value);
  return (
    <Select
      size="xs"
      clearable
      aria-label={label}
      placeholder={none}
      value={value}
      onChange={onChange}
      data={isKnown ? data : [...data, { value, label: words(value) }]}
      className="filter"
    />
  );
}

function Baselines({
  run,
  value,
  onChange,
}: {
  run: RunDetail;
  value: string | undefined;
  onChange: (id: string | null) => void;
}) {
  const others = useQuery(baselinesQuery(run.task));
  const data = (others.data?.items ?? [])
    .filter(({ id }) => id !== run.id)
    .map(({ id, name }) => ({ value: id, label: `${name} ${shortId(id)}` }));
  if (data.length === 0 && !value) return null;
  return <Choice label="Baseline" none="Against a baseline" value={value ?? null} onChange={onChange} data={data} />;
}

function Condition({ columns, add }: { columns: readonly string[]; add: (filter: string) => void }) {
  const [written, setWritten] = useState('');
  const isWhole = isFilter(written);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (!isWhole) return;
        add(written.trim());
        setWritten('');
      }}
    >
      <TextInput
        size="xs"
        aria-label="Further filter"
        placeholder={columns.includes('value') ? 'value<0.5' : 'latency_ms>500'}
        title={columns.length > 0 ? `Columns: ${columns.join(', ')}` : 'A column, an operator and a value'}
        value={written}
        list="sample-columns"
        onChange={(event) => setWritten(event.currentTarget.value)}
        className="filter"
      />
      <datalist id="sample-columns">
        {columns.map((column) => (
          <option key={column} value={column} />
        ))}
      </datalist>
    </form>
  );
}
