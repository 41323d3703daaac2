/** What is dragged in the builder, by the platform's own drag and drop; everything it does has keys and buttons too. */
import type { DragEvent } from 'react';

export const STAGE = 'application/x-vlmhb-stage';
export const OUTPUT = 'application/x-vlmhb-output';
export const MODEL = 'application/x-vlmhb-model';
type Kind = typeof STAGE | typeof OUTPUT | typeof MODEL;

export function drag(event: DragEvent, kind: Kind, value: string): void {
  event.stopPropagation();
  event.dataTransfer.setData(kind, value);
  event.dataTransfer.setData('text/plain', value);
  event.dataTransfer.effectAllowed = kind === STAGE ? 'move' : 'copy';
}

/** What is over the element, among the kinds that it takes. */
export function kindOf(event: DragEvent, kinds: readonly Kind[]): Kind | undefined {
  return kinds.find((kind) => event.dataTransfer.types.includes(kind));
}
