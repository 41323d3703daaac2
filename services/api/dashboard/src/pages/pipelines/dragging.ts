/** What is dragged in the builder, by the platform's own drag and drop; everything it does has keys and buttons too. */
import { type DragEvent, type PointerEvent, useEffect, useRef } from 'react';

export const STAGE = 'application/x-vlmhb-stage';
export const OUTPUT = 'application/x-vlmhb-output';
export const MODEL = 'application/x-vlmhb-model';
export type Kind = typeof STAGE | typeof OUTPUT | typeof MODEL;

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

interface Dropped {
  kind: Kind;
  value: string;
}

const DROPPED = 'vlmhb-dropped';
const OVER = 'touched-over';
/** A finger that moves less has tapped. */
const MIN_MOVE = 8;

/** Handlers that drag by a finger or pen, which the platform's drag and drop does not know. */
export function touchDrag(kind: Kind, value: string) {
  return {
    onPointerDown: (down: PointerEvent<HTMLElement>) => {
      if (down.pointerType === 'mouse') return;
      const source = down.currentTarget;
      let over: Element | null = null;
      let hasMoved = false;
      const mark = (target: Element | null) => {
        if (target === over) return;
        over?.classList.remove(OVER);
        target?.classList.add(OVER);
        over = target;
      };
      const move = (event: globalThis.PointerEvent) => {
        if (event.pointerId !== down.pointerId) return;
        hasMoved ||= Math.hypot(event.clientX - down.clientX, event.clientY - down.clientY) > MIN_MOVE;
        if (hasMoved) mark(targetAt(event.clientX, event.clientY));
      };
      const end = (event: globalThis.PointerEvent) => {
        if (event.pointerId !== down.pointerId) return;
        source.removeEventListener('pointermove', move);
        source.removeEventListener('pointerup', end);
        source.removeEventListener('pointercancel', end);
        const target = event.type === 'pointerup' && hasMoved ? targetAt(event.clientX, event.clientY) : null;
        mark(null);
        target?.dispatchEvent(new CustomEvent<Dropped>(DROPPED, { detail: { kind, value } }));
      };
      source.addEventListener('pointermove', move);
      source.addEventListener('pointerup', end);
      source.addEventListener('pointercancel', end);
    },
  };
}

function targetAt(x: number, y: number): Element | null {
  return document.elementFromPoint(x, y)?.closest('[data-takes-drops]') ?? null;
}

/** The element that takes what a finger drops on it; it needs `data-takes-drops`. */
export function useTouchDrop<Target extends HTMLElement>(drop: (kind: Kind, value: string) => void) {
  const target = useRef<Target>(null);
  const newest = useRef(drop);
  useEffect(() => {
    newest.current = drop;
  });
  useEffect(() => {
    const element = target.current;
    const take = (event: Event) => {
      const { kind, value } = (event as CustomEvent<Dropped>).detail;
      newest.current(kind, value);
    };
    element?.addEventListener(DROPPED, take);
    return () => element?.removeEventListener(DROPPED, take);
  }, []);
  return target;
}
