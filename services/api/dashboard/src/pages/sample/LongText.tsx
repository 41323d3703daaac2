/** A text as text, never as markup: its beginning, then all of it in blocks that are laid out when they are seen. */
import { Button } from '@mantine/core';
import { useMemo, useState } from 'react';
import { bytes, count } from '../../ui/format';
import { beginning, blocksOf } from './blocks';
import './long-text.css';

export function LongText({ text, label }: { text: string; label: string }) {
  const [isWhole, setWhole] = useState(false);
  const cut = useMemo(() => beginning(text), [text]);
  const blocks = useMemo(() => (isWhole ? blocksOf(text) : [cut]), [isWhole, text, cut]);
  const isCut = cut.length < text.length;
  if (text === '') return <p className="none">empty</p>;
  return (
    <div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <section className="long-text" aria-label={label} tabIndex={0} dir="auto">
        {blocks.map((block, place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the blocks of a text have no other name, and never move
          <div key={place} className={isWhole ? 'block lazy' : 'block'}>
            {block}
          </div>
        ))}
      </section>
      {isCut ? (
        <p className="sub cut">
          <Button size="compact-xs" variant="default" onClick={() => setWhole(!isWhole)}>
            {isWhole ? 'Show the beginning' : 'Show all'}
          </Button>{' '}
          {bytes(new Blob([text]).size)}, {count(text.split('\n').length)} lines
        </p>
      ) : null}
    </div>
  );
}
