/** What changes of a run's labels: only what the person has changed, so that others' changes stay. Pure. */
export interface LabelChange {
  add_tags: string[];
  remove_tags: string[];
  note?: string;
}

export function tagsOf(text: string): string[] {
  return [
    ...new Set(
      text
        .split(',')
        .map((tag) => tag.trim())
        .filter(Boolean),
    ),
  ];
}

export function changeOf(
  before: { tags: readonly string[]; note: string },
  tags: readonly string[],
  note: string,
): LabelChange | null {
  const change = {
    add_tags: tags.filter((tag) => !before.tags.includes(tag)),
    remove_tags: before.tags.filter((tag) => !tags.includes(tag)),
    ...(note !== before.note && { note }),
  };
  return change.add_tags.length + change.remove_tags.length > 0 || note !== before.note ? change : null;
}
