/** How many requests a run keeps in flight, and the way to change it while it runs. */
import { Button, NumberInput, Popover } from '@mantine/core';
import { useState } from 'react';
import { useRetune } from '../../api/actions';
import type { RunDetail } from '../../api/queries';

const MAX_IN_FLIGHT = 4096;

export function Retune({ run }: { run: RunDetail }) {
  const [isOpen, setOpen] = useState(false);
  const [value, setValue] = useState<number | string>(run.in_flight);
  const retune = useRetune(run.id);
  const isValid = typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= MAX_IN_FLIGHT;
  return (
    <Popover opened={isOpen} onChange={setOpen} trapFocus width={260} position="bottom-end" withArrow>
      <Popover.Target>
        <Button
          size="xs"
          variant="default"
          onClick={() => {
            setValue(run.in_flight);
            setOpen(!isOpen);
          }}
        >
          {run.in_flight} in flight
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <form
          className="stack"
          onSubmit={(event) => {
            event.preventDefault();
            if (!isValid) return;
            retune.mutate(value);
            setOpen(false);
          }}
        >
          <NumberInput
            label="Requests in flight"
            description="Of each shard. Speeds of the run are then marked retuned; its quality is not affected."
            value={value}
            onChange={setValue}
            min={1}
            max={MAX_IN_FLIGHT}
            allowDecimal={false}
          />
          <Button type="submit" size="xs" disabled={!isValid || value === run.in_flight}>
            Change
          </Button>
        </form>
      </Popover.Dropdown>
    </Popover>
  );
}
