/** Pipelines of models: ask one, build one, look at what was asked, and see which models can be used. */
import { SegmentedControl } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useTitle } from '../../ui/useTitle';
import { BasePipeline } from './BasePipeline';
import { BuilderTab } from './Builder';
import { History } from './History';
import { Models } from './Models';
import { pipelines as route, TABS, type Tab } from './route';
import './style.css';

const NAMES: Record<Tab, string> = {
  base: 'Base pipeline',
  builder: 'Manual builder',
  history: 'History',
  models: 'Models status',
};

export function PipelinesPage() {
  const { tab = 'base' } = route.useSearch();
  const navigate = useNavigate({ from: '/pipelines' });
  useTitle(`${NAMES[tab]} · Pipelines`);
  return (
    <div className="page pipelines">
      <div className="page-head">
        <h1>Pipelines</h1>
        <SegmentedControl
          size="xs"
          aria-label="Part of the pipelines"
          className="states"
          value={tab}
          onChange={(value) =>
            void navigate({ search: value === 'base' ? {} : { tab: TABS.find((known) => known === value) ?? 'base' } })
          }
          data={TABS.map((value) => ({ value, label: NAMES[value] }))}
        />
      </div>
      {tab === 'base' ? <BasePipeline /> : null}
      {tab === 'builder' ? <BuilderTab /> : null}
      {tab === 'history' ? <History /> : null}
      {tab === 'models' ? <Models /> : null}
    </div>
  );
}
