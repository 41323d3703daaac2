/** The registered models, to drag into a stage; each stage has a field that does the same by keyboard. */
import { TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { GripVertical, Search } from 'lucide-react';
import { useMemo, useState } from 'react';
import { Loaded } from '../../ui/Loaded';
import { drag, MODEL, touchDrag } from './dragging';
import { modelNamesQuery, modelsQuery } from './queries';

export function ModelShelf() {
  const query = useQuery(modelNamesQuery);
  const statuses = useQuery(modelsQuery);
  const [words, setWords] = useState('');
  const known = useMemo(
    () => new Map((statuses.data?.items ?? []).map((model) => [model.name, model.status])),
    [statuses.data],
  );
  return (
    <section className="card" aria-label="Models to drag">
      <header>
        <h2>Models</h2>
        <span className="sub">drag one into a stage, or choose it there</span>
      </header>
      <div className="body stack">
        <TextInput
          size="xs"
          aria-label="Filter the models"
          placeholder="Name or description"
          leftSection={<Search size={13} aria-hidden="true" />}
          value={words}
          onChange={(event) => setWords(event.currentTarget.value)}
        />
        <Loaded query={query} what="models">
          {({ items }) => {
            const shown = items.filter((item) =>
              words
                .toLowerCase()
                .split(/\s+/)
                .every((word) => `${item.name} ${item.description ?? ''}`.toLowerCase().includes(word)),
            );
            return (
              // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
              <section className="shelf" aria-label="Models that can be dragged" tabIndex={0}>
                <ul>
                  {shown.map((item) => (
                    <li
                      key={item.name}
                      draggable
                      title={item.description}
                      onDragStart={(event) => drag(event, MODEL, item.name)}
                    >
                      <span className="touch-grip" aria-hidden="true" {...touchDrag(MODEL, item.name)}>
                        <GripVertical size={14} />
                      </span>
                      <bdi>{item.name}</bdi>
                      <span className="sub"> {known.get(item.name)?.replaceAll('_', ' ') ?? ''}</span>
                    </li>
                  ))}
                </ul>
                {shown.length === 0 ? <p className="sub">No model has these words.</p> : null}
              </section>
            );
          }}
        </Loaded>
      </div>
    </section>
  );
}
