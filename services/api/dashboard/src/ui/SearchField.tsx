/** A field of words in the address: what is typed is shown at once, and asked for when the person stops typing. */
import { TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { Search } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';

const TYPING_MS = 250;

interface Props {
  label: string;
  placeholder: string;
  value: string | undefined;
  change: (words: string | undefined) => void;
  className?: string;
}

export function SearchField({ label, placeholder, value = '', change, className }: Props) {
  const [text, setText] = useState(value);
  const field = useRef<HTMLInputElement>(null);
  const ask = useDebouncedCallback((typed: string) => change(typed.trim() || undefined), TYPING_MS);
  useEffect(() => ask.cancel, [ask]);
  // The address follows what is typed; what changes it elsewhere is shown where nobody types.
  useEffect(() => {
    if (document.activeElement !== field.current) setText(value);
  }, [value]);
  return (
    <TextInput
      ref={field}
      size="xs"
      aria-label={label}
      placeholder={placeholder}
      leftSection={<Search size={13} aria-hidden="true" />}
      value={text}
      onChange={(event) => {
        setText(event.currentTarget.value);
        ask(event.currentTarget.value);
      }}
      {...(className && { className })}
    />
  );
}
