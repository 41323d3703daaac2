/** Bounds of further columns, each a slider over the values that runs have; what it leaves are filters of the address. */
import { ActionIcon, NativeSelect, RangeSlider } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { X } from 'lucide-react';
import { useState } from 'react';
import { pointsQuery } from '../../api/listing';
import { column as columnName, significant } from '../../ui/format';
import { boundsOf, withBounds } from './axes';

const STEPS = 200;
const MAX_BOUNDS = 6;

interface Props {
  names: readonly string[];
  bounds: readonly string[];
  where: readonly string[];
  q: string | undefined;
  change: (bounds: string[], where: string[]) => void;
}

export function Sliders({ names, bounds, where, q, change }: Props) {
  const own = (text: string) => bounds.some((name) => text.startsWith(`${name}>=`) || text.startsWith(`${name}<=`));
  // The ends of the sliders are those of the runs that the other filters leave.
  const { data } = useQuery(pointsQuery({ columns: bounds, where: where.filter((text) => !own(text)), q }));
  return (
    <div className="explore-bounds">
      {bounds.map((name, at) => {
        const column = data?.columns.indexOf(name) ?? -1;
        const values = (data?.points ?? [])
          .map((point) => point.values[column < 0 ? at : column])
          .filter((value): value is number => typeof value === 'number');
        return (
          <Bound
            key={name}
            name={name}
            values={values}
            where={where}
            set={(changed) => change([...bounds], changed)}
            remove={() =>
              change(
                bounds.filter((known) => known !== name),
                withBounds(where, name, { low: null, high: null }),
              )
            }
          />
        );
      })}
      {bounds.length < MAX_BOUNDS ? (
        <NativeSelect
          size="xs"
          aria-label="Bound another column"
          value=""
          onChange={(event) => change([...bounds, event.currentTarget.value], [...where])}
          data={[
            { value: '', label: 'Bound a column …' },
            ...names.filter((name) => !bounds.includes(name)).map((name) => ({ value: name, label: columnName(name) })),
          ]}
        />
      ) : null}
    </div>
  );
}

interface BoundProps {
  name: string;
  values: readonly number[];
  where: readonly string[];
  set: (where: string[]) => void;
  remove: () => void;
}

function Bound({ name, values, where, set, remove }: BoundProps) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const { low, high } = boundsOf(name, where);
  const ends: [number, number] = [low ?? least, high ?? most];
  const [range, setRange] = useState(ends);
  // Moved by something else: the slider stays the same one, as another would not have the keyboard's focus.
  const [known, setKnown] = useState(ends);
  if (ends.some((end, at) => end !== known[at])) {
    setKnown(ends);
    setRange(ends);
  }
  return (
    <div className="explore-bound">
      <div className="line-head">
        <span className="strong">{columnName(name)}</span>
        <span className="sub">
          {values.length === 0 ? 'no run has it' : `${significant(range[0])} to ${significant(range[1])}`}
        </span>
        <ActionIcon
          size={24}
          variant="subtle"
          color="gray"
          onClick={remove}
          aria-label={`No bounds of ${columnName(name)}`}
        >
          <X size={13} />
        </ActionIcon>
      </div>
      {least < most ? (
        <RangeSlider
          size="sm"
          thumbSize={20}
          className="explore-slider"
          min={least}
          max={most}
          step={(most - least) / STEPS}
          minRange={0}
          label={null}
          thumbFromLabel={`Lower bound of ${columnName(name)}`}
          thumbToLabel={`Upper bound of ${columnName(name)}`}
          value={range}
          onChange={setRange}
          onChangeEnd={([from, to]) =>
            set(
              withBounds(where, name, {
                low: from <= least ? null : rounded(from),
                high: to >= most ? null : rounded(to),
              }),
            )
          }
        />
      ) : values.length > 0 ? (
        <p className="sub">All runs have the same value.</p>
      ) : null}
    </div>
  );
}

function rounded(value: number): number {
  return Number(value.toPrecision(6));
}
