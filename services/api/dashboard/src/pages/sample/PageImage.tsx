/** A page with its boxes: zoomed by wheel, buttons, + and −, moved by dragging or arrow keys. */
import { ActionIcon, Switch, Tooltip } from '@mantine/core';
import { Maximize, ZoomIn, ZoomOut } from 'lucide-react';
import { type PointerEvent, useEffect, useRef, useState } from 'react';
import { percent } from '../../ui/format';
import type { Box } from './boxes';

const STEP = 1.4;
const MAX_ZOOM = 24;
const ARROW_PX = 60;
/** Share of the window's height that a page takes at most. */
const SHARE_VH = 72;

interface View {
  zoom: number;
  x: number;
  y: number;
}

const WHOLE: View = { zoom: 1, x: 0, y: 0 };

interface Props {
  address: string;
  label: string;
  boxes: readonly Box[];
}

export function PageImage({ address, label, boxes }: Props) {
  const [view, setView] = useState<View>(WHOLE);
  const [size, setSize] = useState<{ width: number; height: number } | null>(null);
  const [isGone, setGone] = useState(false);
  const [hasBoxes, setHasBoxes] = useState(true);
  const place = useRef<HTMLDivElement>(null);
  const dragged = useRef<{ x: number; y: number } | null>(null);

  const zoom = (factor: number, at: { x: number; y: number } = { x: 0, y: 0 }) =>
    setView((old) => {
      const next = Math.max(1, Math.min(MAX_ZOOM, old.zoom * factor));
      const scale = next / old.zoom;
      return next === 1 ? WHOLE : { zoom: next, x: at.x - (at.x - old.x) * scale, y: at.y - (at.y - old.y) * scale };
    });
  const move = (x: number, y: number) => setView((old) => ({ ...old, x: old.x + x, y: old.y + y }));

  const zoomBy = useRef(zoom);
  zoomBy.current = zoom;
  // React listens to the wheel passively, and the page would scroll.
  useEffect(() => {
    const element = place.current;
    const turned = (event: WheelEvent) => {
      if (element === null || !(event.ctrlKey || event.metaKey || event.altKey)) return;
      event.preventDefault();
      const { left, top, width, height } = element.getBoundingClientRect();
      const at = { x: event.clientX - left - width / 2, y: event.clientY - top - height / 2 };
      zoomBy.current(event.deltaY < 0 ? STEP : 1 / STEP, at);
    };
    element?.addEventListener('wheel', turned, { passive: false });
    return () => element?.removeEventListener('wheel', turned);
  }, []);

  const keys: Record<string, () => void> = {
    '+': () => zoom(STEP),
    '=': () => zoom(STEP),
    '-': () => zoom(1 / STEP),
    '0': () => setView(WHOLE),
    ArrowLeft: () => move(ARROW_PX, 0),
    ArrowRight: () => move(-ARROW_PX, 0),
    ArrowUp: () => move(0, ARROW_PX),
    ArrowDown: () => move(0, -ARROW_PX),
  };
  const drag = (event: PointerEvent) => {
    if (dragged.current === null) return;
    move(event.clientX - dragged.current.x, event.clientY - dragged.current.y);
    dragged.current = { x: event.clientX, y: event.clientY };
  };
  if (isGone) {
    return (
      <div className="page-gone" role="alert">
        <p>This image cannot be read: its file is gone or damaged.</p>
        <p className="sub">The answer and its scores do not depend on it. A backup of the storage can bring it back.</p>
      </div>
    );
  }
  return (
    <figure className="page-figure">
      <div className="page-tools">
        <Tool label="Zoom in" icon={<ZoomIn size={15} />} act={() => zoom(STEP)} />
        <Tool label="Zoom out" icon={<ZoomOut size={15} />} act={() => zoom(1 / STEP)} />
        <Tool label="Whole page" icon={<Maximize size={15} />} act={() => setView(WHOLE)} />
        <span className="sub">{percent(view.zoom)}</span>
        {boxes.length > 0 ? (
          <Switch
            size="xs"
            className="end"
            label={`${boxes.length} boxes`}
            checked={hasBoxes}
            onChange={(event) => setHasBoxes(event.currentTarget.checked)}
          />
        ) : null}
      </div>
      {/* biome-ignore lint/a11y/useSemanticElements: it is no form's group, but a page that is moved by keys */}
      <div
        ref={place}
        className="page-view"
        role="group"
        aria-label={`${label}: + and - zoom, 0 shows it whole, arrows move`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it is moved by keys
        tabIndex={0}
        onKeyDown={(event) => {
          const act = keys[event.key];
          if (act === undefined || event.ctrlKey || event.metaKey) return;
          event.preventDefault();
          act();
        }}
        onPointerDown={(event) => {
          if (view.zoom === 1) return;
          event.currentTarget.setPointerCapture(event.pointerId);
          dragged.current = { x: event.clientX, y: event.clientY };
        }}
        onPointerMove={drag}
        onPointerUp={() => {
          dragged.current = null;
        }}
        data-zoomed={view.zoom > 1}
      >
        <div
          className="page-sheet"
          style={{
            transform: `translate(${view.x}px, ${view.y}px) scale(${view.zoom})`,
            // A small page fills the place, and a high one fits into the window.
            ...(size && { width: `min(100%, ${(SHARE_VH * size.width) / size.height}vh)` }),
          }}
        >
          <img
            src={address}
            alt={label}
            draggable={false}
            onLoad={({ currentTarget }) =>
              setSize({ width: currentTarget.naturalWidth, height: currentTarget.naturalHeight })
            }
            onError={() => setGone(true)}
          />
          {size && hasBoxes ? <Boxes boxes={boxes} width={size.width} height={size.height} /> : null}
        </div>
      </div>
    </figure>
  );
}

function Boxes({ boxes, width, height }: { boxes: readonly Box[]; width: number; height: number }) {
  return (
    <svg viewBox={`0 0 ${width} ${height}`} className="boxes" aria-hidden="true" preserveAspectRatio="none">
      {boxes.map((box) => (
        <rect
          key={`${box.name}-${box.isAnswer}`}
          className={box.isAnswer ? 'answer' : ''}
          x={box.left}
          y={box.top}
          width={box.width}
          height={box.height}
        >
          <title>{box.name}</title>
        </rect>
      ))}
    </svg>
  );
}

function Tool({ label, icon, act }: { label: string; icon: React.ReactNode; act: () => void }) {
  return (
    <Tooltip label={label}>
      <ActionIcon size="sm" variant="default" aria-label={label} onClick={act}>
        {icon}
      </ActionIcon>
    </Tooltip>
  );
}
