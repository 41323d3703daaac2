/** The palette: type to find a page or a run, from every page by Ctrl K. */
import { createSpotlight, Spotlight, type SpotlightActionData } from '@mantine/spotlight';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { Search } from 'lucide-react';
import { useMemo, useState } from 'react';
import { rowsQuery } from '../api/listing';
import { shortId } from '../ui/format';
import { NAVIGATION, PLACES } from './navigation';

const [palette, actions] = createSpotlight();
export const openPalette = actions.open;

export function Palette() {
  const navigate = useNavigate();
  const [isOpen, setIsOpen] = useState(false);
  const runs = useQuery({ ...rowsQuery({}), enabled: isOpen });
  const found = useMemo<SpotlightActionData[]>(() => {
    const pages = NAVIGATION.map(({ label, to, icon: Icon }) => ({
      id: to,
      label,
      description: 'Page',
      leftSection: <Icon size={16} aria-hidden="true" />,
      onClick: () => void navigate({ to }),
    }));
    const places = PLACES.map(({ label, to, search, icon: Icon }) => ({
      id: label,
      label,
      description: 'Part of a page',
      leftSection: <Icon size={16} aria-hidden="true" />,
      onClick: () => void navigate({ to, search }),
    }));
    const rows = (runs.data?.items ?? []).map((run) => ({
      id: run.id,
      label: run.name,
      description: `${run.target} · ${run.task} · ${run.state.toLowerCase()} · ${shortId(run.id)}`,
      keywords: [run.id, run.target, run.task],
      onClick: () => void navigate({ to: '/runs/$id', params: { id: run.id } }),
    }));
    return [...pages, ...places, ...rows];
  }, [runs.data, navigate]);
  return (
    <Spotlight
      store={palette}
      actions={found}
      shortcut={['mod + K']}
      limit={12}
      highlightQuery
      scrollable
      maxHeight={420}
      nothingFound="No page or run of this name"
      onSpotlightOpen={() => setIsOpen(true)}
      onSpotlightClose={() => setIsOpen(false)}
      searchProps={{
        leftSection: <Search size={16} aria-hidden="true" />,
        placeholder: 'A page, or a run by name, model, task or id',
        'aria-label': 'Search runs and pages',
      }}
    />
  );
}
