/** The fleet: workers and their devices, what is drained or in quarantine, and the queue by priority. */
import { Switch } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import type { Worker } from '../../api/queries';
import { count } from '../../ui/format';
import { Loaded } from '../../ui/Loaded';
import { Empty } from '../../ui/Notes';
import { useTitle } from '../../ui/useTitle';
import { type Asked, Confirm } from './Confirm';
import { Drains } from './Drains';
import { Quarantines } from './Quarantines';
import { Queue } from './Queue';
import { fleetQuery } from './queries';
import { workers as route } from './route';
import './style.css';
import { WorkerCard } from './WorkerCard';

export function WorkersPage() {
  useTitle('Workers');
  const { past = false } = route.useSearch();
  const navigate = useNavigate({ from: '/workers' });
  const query = useQuery(fleetQuery(past));
  const [asked, setAsked] = useState<Asked>();
  return (
    <div className="page">
      <div className="page-head">
        <h1>Workers</h1>
        <div className="right">
          <Switch
            size="xs"
            label="Show what is past"
            checked={past}
            onChange={(event) => void navigate({ search: event.currentTarget.checked ? { past: true } : {} })}
          />
        </div>
      </div>
      <Loaded query={query} what="workers">
        {({ items, next }) =>
          items.length === 0 ? (
            <Empty title="No worker is present">
              <p className="note-text">Runs wait until one starts: `vlmhyperbench status` shows the processes.</p>
            </Empty>
          ) : (
            <>
              <Fleet workers={items} ask={setAsked} />
              {next ? <p className="sub">Only the first {count(items.length)} workers are shown.</p> : null}
            </>
          )
        }
      </Loaded>
      <Queue />
      <Drains past={past} ask={setAsked} />
      <Quarantines past={past} ask={setAsked} />
      <Confirm asked={asked} close={() => setAsked(undefined)} />
    </div>
  );
}

const KINDS = ['inference', 'evaluation', 'reporting'];

function Fleet({ workers, ask }: { workers: readonly Worker[]; ask: (asked: Asked) => void }) {
  const order = (worker: Worker) => KINDS.indexOf(worker.kind);
  const sorted = [...workers].sort((first, second) => order(first) - order(second));
  return (
    <div className="grid">
      {sorted.map((worker) => (
        <WorkerCard key={worker.id} worker={worker} ask={ask} />
      ))}
    </div>
  );
}
