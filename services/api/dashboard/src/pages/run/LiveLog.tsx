/** The lines that a running claim writes now: the last ones that were written before, then those that come. */
import { TextInput } from '@mantine/core';
import { Search } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import { useLogLines } from '../../api/live';
import { count } from '../../ui/format';
import './logs.css';

/** How far from its end a list may be and still follow what comes. */
const NEAR_PX = 40;

export function LiveLog({ id }: { id: string }) {
  const { lines, leftOut } = useLogLines(id);
  const [q, setQ] = useState('');
  const place = useRef<HTMLElement>(null);
  const follows = useRef(true);
  const shown = q ? lines.filter(({ text }) => text.toLowerCase().includes(q.toLowerCase())) : lines;
  const last = shown.at(-1)?.no;
  // biome-ignore lint/correctness/useExhaustiveDependencies: it moves when there is a new line
  useEffect(() => {
    if (place.current && follows.current) place.current.scrollTop = place.current.scrollHeight;
  }, [last]);
  return (
    <section className="card" aria-label="Log now">
      <div className="filters log-head">
        <h2>Now</h2>
        <TextInput
          size="xs"
          aria-label="New lines that contain"
          placeholder="Lines that contain"
          leftSection={<Search size={13} aria-hidden="true" />}
          value={q}
          onChange={(event) => setQ(event.currentTarget.value)}
        />
      </div>
      <section
        ref={place}
        className="log live"
        aria-label="Lines now"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        tabIndex={0}
        onScroll={({ currentTarget: at }) => {
          follows.current = at.scrollHeight - at.scrollTop - at.clientHeight < NEAR_PX;
        }}
      >
        {shown.length === 0 ? (
          <p className="body sub">{q ? 'No line here contains this.' : 'No claim has written a line yet.'}</p>
        ) : null}
        <ol>
          {shown.map(({ no, source, text }) => (
            <li key={no}>
              <span className="sub">{source}</span>
              <bdi>{text}</bdi>
            </li>
          ))}
        </ol>
      </section>
      <p className="sub foot">
        The newest {count(lines.length)} lines of what runs now
        {leftOut > 0 ? `; ${count(leftOut)} more are in the log that a claim stores when it ends` : ''}
      </p>
    </section>
  );
}
