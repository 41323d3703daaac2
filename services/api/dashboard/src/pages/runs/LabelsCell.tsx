/** Tags and note of a run, edited where they stand; what two people change at once is merged by the API. */
import { Button, Textarea, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { Pencil, StickyNote } from 'lucide-react';
import { useState } from 'react';
import { api, body, type Schemas } from '../../api/client';
import { equals } from '../../api/filters';
import { labelsQuery } from '../../api/listing';
import { Loaded } from '../../ui/Loaded';
import { changeOf, tagsOf } from './labels';

type Labels = Schemas['Labels'];

interface Props {
  id: string;
  name: string;
  tags: readonly string[];
  hasNote: boolean;
  mayEdit: boolean;
}

export function LabelsCell({ id, name, tags, hasNote, mayEdit }: Props) {
  const [isEdited, setIsEdited] = useState(false);
  const word = tags.length === 0 && !hasNote ? 'add' : 'edit';
  if (isEdited) return <Edited id={id} name={name} close={() => setIsEdited(false)} />;
  return (
    <div className="tags">
      {tags.map((tag) => (
        <Link key={tag} to="/runs" search={{ where: [equals('tags', tag)] }} className="badge">
          <bdi>{tag}</bdi>
        </Link>
      ))}
      {hasNote ? (
        <span className="badge" title="It has a note">
          <StickyNote size={11} aria-hidden="true" /> note
        </span>
      ) : null}
      {mayEdit ? (
        <button
          type="button"
          className="quiet-button"
          aria-label={`${word} tags and note of ${name}`}
          onClick={() => setIsEdited(true)}
        >
          <Pencil size={12} aria-hidden="true" /> {word}
        </button>
      ) : null}
    </div>
  );
}

function Edited({ id, name, close }: { id: string; name: string; close: () => void }) {
  const query = useQuery(labelsQuery(id));
  return (
    <Loaded query={query} what="labels">
      {(labels) => <Form key={labels.labelled_at ?? ''} labels={labels} name={name} close={close} />}
    </Loaded>
  );
}

function Form({ labels, name, close }: { labels: Labels; name: string; close: () => void }) {
  const [tags, setTags] = useState(labels.tags.join(', '));
  const [note, setNote] = useState(labels.note);
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: async () => {
      const changed = changeOf(labels, tagsOf(tags), note);
      if (changed === null) return;
      const params = { path: { run_id: labels.run_id } };
      await body(api.PATCH('/api/v1/runs/{run_id}/labels', { params, body: changed }));
    },
    onSuccess: close,
    onError: (error) => notifications.show({ color: 'red', title: 'Refused', message: error.message }),
    onSettled: () =>
      queries.invalidateQueries({ predicate: ({ queryKey }) => ['runs', 'labels'].includes(String(queryKey[0])) }),
  });
  return (
    <form
      className="labels-form"
      onSubmit={(event) => {
        event.preventDefault();
        change.mutate();
      }}
      onKeyDown={(event) => {
        if (event.key === 'Escape') close();
      }}
    >
      <TextInput
        size="xs"
        aria-label={`Tags of ${name}, separated by commas`}
        placeholder="Tags, separated by commas"
        value={tags}
        onChange={(event) => setTags(event.currentTarget.value)}
        data-autofocus
        autoFocus
      />
      <Textarea
        size="xs"
        aria-label={`Note of ${name}`}
        placeholder="Note"
        value={note}
        onChange={(event) => setNote(event.currentTarget.value)}
        autosize
        minRows={2}
        maxRows={8}
        maxLength={10_000}
      />
      <div className="filters">
        <Button size="compact-xs" type="submit" loading={change.isPending}>
          Save
        </Button>
        <Button size="compact-xs" variant="default" onClick={close}>
          Leave
        </Button>
      </div>
    </form>
  );
}
