/** The filters of a page that a person keeps under names: open, save what is shown, remove. */
import { Button, Menu, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useRouter } from '@tanstack/react-router';
import { Bookmark, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { api, body } from '../api/client';
import { type SavedView, viewsQuery } from '../api/listing';

export function SavedViews({ page }: { page: 'runs' | 'explore' }) {
  const router = useRouter();
  const queries = useQueryClient();
  const { data } = useQuery(viewsQuery(page));
  const [name, setName] = useState('');
  const change = useMutation({
    mutationFn: ({ view, search }: { view: string; search: string | null }) => send(page, view, search),
    onSuccess: (_, { view, search }) => {
      setName('');
      notifications.show({ message: search === null ? `Removed: ${view}` : `Saved: ${view}` });
    },
    onError: (error) => notifications.show({ color: 'red', title: 'Refused', message: error.message }),
    onSettled: () => queries.invalidateQueries({ queryKey: ['views', page] }),
  });
  const views = data?.items ?? [];
  return (
    <Menu position="bottom-start" width={280} closeOnItemClick={false}>
      <Menu.Target>
        <Button size="xs" variant="default" leftSection={<Bookmark size={13} aria-hidden="true" />}>
          Views{views.length > 0 ? ` (${views.length})` : ''}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {views.map((view) => (
          <Item
            key={view.name}
            view={view}
            open={() => router.history.push(`/${page}${view.search ? `?${view.search}` : ''}`)}
            remove={() => change.mutate({ view: view.name, search: null })}
          />
        ))}
        {views.length > 0 ? <Menu.Divider /> : null}
        <form
          className="filters saved-view-form"
          onSubmit={(event) => {
            event.preventDefault();
            change.mutate({ view: name.trim(), search: searchOf(window.location.search) });
          }}
        >
          <TextInput
            size="xs"
            aria-label="Name of the view"
            placeholder="Save what is shown as …"
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            onKeyDown={(event) => event.stopPropagation()}
            maxLength={60}
          />
          <Button size="xs" type="submit" disabled={name.trim() === ''} loading={change.isPending}>
            Save
          </Button>
        </form>
      </Menu.Dropdown>
    </Menu>
  );
}

function Item({ view, open, remove }: { view: SavedView; open: () => void; remove: () => void }) {
  return (
    <>
      <Menu.Item onClick={open}>
        <bdi>{view.name}</bdi>
      </Menu.Item>
      <Menu.Item
        color="red"
        leftSection={<Trash2 size={12} aria-hidden="true" />}
        onClick={remove}
        className="saved-view-remove"
      >
        Remove {view.name}
      </Menu.Item>
    </>
  );
}

/** The query of an address without the place in the list and what is chosen there, which mean nothing another day. */
export function searchOf(search: string): string {
  const query = new URLSearchParams(search);
  query.delete('cursor');
  query.delete('chosen');
  return query.toString();
}

function send(page: string, name: string, search: string | null): Promise<unknown> {
  const params = { path: { page, name } };
  return search === null
    ? body(api.DELETE('/api/v1/saved-views/{page}/{name}', { params }))
    : body(api.PUT('/api/v1/saved-views/{page}/{name}', { params, body: { search } }));
}
