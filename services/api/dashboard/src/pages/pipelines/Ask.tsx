/** The form of a question: its text, its images, and why it cannot be asked. */
import { Button, FileInput, Textarea } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { ImagePlus, X } from 'lucide-react';
import { useState } from 'react';
import { useAllowed } from '../../ui/allowed';
import { Problem } from '../../ui/Notes';
import { useAsk } from './queries';
import { dataUrl, problemOf } from './question';

interface Picture {
  name: string;
  url: string;
}

export function Ask({ pipeline, isBlocked }: { pipeline: string; isBlocked: boolean }) {
  const navigate = useNavigate({ from: '/pipelines' });
  const mayAsk = useAllowed('run:write');
  const ask = useAsk();
  const [question, setQuestion] = useState('');
  const [pictures, setPictures] = useState<readonly Picture[]>([]);
  const [unread, setUnread] = useState<Error>();
  const images = pictures.map((picture) => picture.url);
  const tooLarge = problemOf(images);
  const canSend = mayAsk && !isBlocked && question.trim() !== '' && tooLarge === undefined;

  const add = async (files: readonly File[]) => {
    setUnread(undefined);
    try {
      const read = await Promise.all(files.map(async (file) => ({ name: file.name, url: await dataUrl(file) })));
      setPictures((known) => [...known, ...read]);
    } catch (error) {
      setUnread(error instanceof Error ? error : new Error(String(error)));
    }
  };
  const send = () => {
    if (!canSend || ask.isPending) return;
    ask.mutate(
      { pipeline, question, images },
      { onSuccess: (run) => void navigate({ search: (old) => ({ ...old, session: run.id }) }) },
    );
  };
  return (
    <section
      className="card"
      aria-label="Ask"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void add([...event.dataTransfer.files]);
      }}
      onPaste={(event) => void add([...event.clipboardData.files])}
    >
      <header>
        <h2>Ask</h2>
      </header>
      <form
        className="body stack"
        onSubmit={(event) => {
          event.preventDefault();
          send();
        }}
      >
        <Textarea
          label="Question"
          value={question}
          onChange={(event) => setQuestion(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) send();
          }}
          autosize
          minRows={3}
          maxRows={12}
          dir="auto"
          maxLength={100_000}
        />
        <FileInput
          label="Images"
          description="Choose them, or drop or paste them here."
          placeholder="Add images"
          leftSection={<ImagePlus size={14} aria-hidden="true" />}
          accept="image/png,image/jpeg,image/webp"
          multiple
          value={[]}
          onChange={(files) => void add(files)}
        />
        {pictures.length > 0 ? (
          <ul className="pictures" aria-label="Chosen images">
            {pictures.map((picture, place) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: the same image may be chosen twice
              <li key={place}>
                <img src={picture.url} alt={picture.name} />
                <Button
                  size="compact-xs"
                  variant="default"
                  leftSection={<X size={12} aria-hidden="true" />}
                  aria-label={`Remove ${picture.name}`}
                  onClick={() => setPictures((known) => known.filter((_, no) => no !== place))}
                >
                  <bdi>{picture.name}</bdi>
                </Button>
              </li>
            ))}
          </ul>
        ) : null}
        {tooLarge ? <p className="reason">{tooLarge}</p> : null}
        {unread ? <Problem error={unread} /> : null}
        {ask.error ? <Problem error={ask.error} /> : null}
        <div className="filters">
          <Button type="submit" size="xs" loading={ask.isPending} disabled={!canSend}>
            Ask {pipeline}
          </Button>
          <span className="sub">
            {isBlocked ? 'It is blocked.' : mayAsk ? 'Ctrl Enter asks too.' : 'Your key may not ask (run:write).'}
          </span>
        </div>
      </form>
    </section>
  );
}
