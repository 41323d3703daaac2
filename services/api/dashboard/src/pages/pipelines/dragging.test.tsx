import { fireEvent, render, screen } from '@testing-library/react';
import { afterEach, expect, it, vi } from 'vitest';
import { MODEL, touchDrag, useTouchDrop } from './dragging';

function Board({ drop }: { drop: (kind: string, value: string) => void }) {
  const target = useTouchDrop<HTMLDivElement>(drop);
  return (
    <>
      <button type="button" {...touchDrag(MODEL, 'reader')}>
        grip
      </button>
      <div ref={target} data-takes-drops>
        <p>stage</p>
      </div>
    </>
  );
}

const before = document.elementFromPoint;
afterEach(() => {
  document.elementFromPoint = before;
});

function dragged(by: number, pointerType: string) {
  const drop = vi.fn();
  render(<Board drop={drop} />);
  const grip = screen.getByRole('button', { name: 'grip' });
  document.elementFromPoint = () => screen.getByText('stage');
  const at = { pointerId: 1, pointerType, clientX: 0 };
  fireEvent.pointerDown(grip, { ...at, clientY: 0 });
  fireEvent.pointerMove(grip, { ...at, clientY: by });
  const isOver = screen.getByText('stage').parentElement?.classList.contains('touched-over');
  fireEvent.pointerUp(grip, { ...at, clientY: by });
  return { drop, isOver };
}

it('drops what a finger drags on the element below it, which is marked meanwhile', () => {
  const { drop, isOver } = dragged(60, 'touch');
  expect(isOver).toBe(true);
  expect(drop.mock.calls).toEqual([[MODEL, 'reader']]);
  expect(screen.getByText('stage').parentElement?.classList.contains('touched-over')).toBe(false);
});

it('takes a tap for no drag, and leaves a mouse to the drag and drop of the platform', () => {
  expect(dragged(2, 'touch').drop).not.toHaveBeenCalled();
  document.body.replaceChildren();
  expect(dragged(60, 'mouse').drop).not.toHaveBeenCalled();
});
