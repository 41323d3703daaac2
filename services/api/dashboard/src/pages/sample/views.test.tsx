import { MantineProvider } from '@mantine/core';
import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import type { ReactNode } from 'react';
import { afterEach, describe, expect, it } from 'vitest';
import { LongText } from './LongText';
import { Members } from './Members';
import { Difference, Metrics } from './Metrics';
import { PageImage } from './PageImage';
import { spansOf, Waterfall } from './Waterfall';

afterEach(cleanup);

function show(children: ReactNode) {
  return render(<MantineProvider>{children}</MantineProvider>);
}

describe('a long text', () => {
  it('is cut until somebody asks for all of it, and is never markup', () => {
    const text = '<b>line</b>\n'.repeat(10_000);
    const { container } = show(<LongText text={text} label="Answer" />);
    expect(container.textContent.length).toBeLessThan(10_000);
    fireEvent.click(screen.getByRole('button', { name: 'Show all' }));
    expect(screen.getByRole('region', { name: 'Answer' }).textContent).toBe(text);
    expect(container.querySelector('b')).toBeNull();
    fireEvent.click(screen.getByRole('button', { name: 'Show the beginning' }));
    expect(container.textContent.length).toBeLessThan(10_000);
  });
});

describe('a difference', () => {
  it('shows both texts, each with what only it has', () => {
    const { container } = show(<Difference answer="total 12" reference="total 13" />);
    expect(container.querySelector('ins')?.textContent).toBe('2');
    expect(container.querySelector('del')?.textContent).toBe('3');
  });

  it('shows equal texts once', () => {
    const { container } = show(<Difference answer="same" reference="same" />);
    expect(container.querySelector('dl')?.textContent).toBe('Bothsame');
  });
});

describe('a metric', () => {
  const trace = {
    metric: 'anls',
    label: 'ANLS',
    profile: 'paper',
    extractor: 'text@1',
    evaluation_id: null,
    value: 0.5,
    outcome: 'scored',
    reason: null,
    is_invalid: false,
    low: 0,
    high: 1,
    direction: 'higher' as const,
    normaliser: null,
    formula: null,
    compared: null,
    statistics: {},
  };

  it('has its value on its scale', () => {
    show(<Metrics traces={[trace]} />);
    expect(screen.getByText('0.500')).toBeTruthy();
    expect(screen.getByText(/on 0 to 1.00, higher is better/)).toBeTruthy();
  });

  it('without a value says why, instead of 0', () => {
    show(<Metrics traces={[{ ...trace, value: null, outcome: 'unscored', reason: 'no_reference' }]} />);
    expect(screen.getByText(/unscored/)).toBeTruthy();
    expect(screen.getByText('no_reference')).toBeTruthy();
  });
});

describe('the times of a request', () => {
  const timing = {
    queue_ms: 1,
    ttft_ms: 11,
    latency_ms: 31,
    stream_end_ms: 33,
    tpot_ms: 5,
    events: 5000,
    events_ms: [11, 21, 31],
    event_tokens: [1, 1, 1],
  };

  it('follow each other', () => {
    expect(spansOf(timing).map(({ from, to }) => [from, to])).toEqual([
      [0, 1],
      [1, 11],
      [11, 31],
      [31, 33],
    ]);
  });

  it('are followed by the number of all token events, also of those that are not sent', () => {
    show(<Waterfall timing={timing} tries={1} />);
    expect(screen.getByText(/token events/).textContent).toMatch(/5\D?000\s+token events/);
  });

  it('of a pipeline are said to be those of its critical path', () => {
    const path = { ...timing, queue_ms: null, ttft_ms: null, stream_end_ms: null, tpot_ms: null, latency_ms: 40 };
    show(<Waterfall timing={{ ...path, events: 0, events_ms: [], event_tokens: [] }} tries={0} isCombined />);
    expect(screen.getByText(/critical path/).textContent).toContain('40');
  });

  it('are absent where nothing was measured', () => {
    const nothing = { queue_ms: null, ttft_ms: null, latency_ms: null, stream_end_ms: null, tpot_ms: null };
    show(<Waterfall timing={{ ...nothing, events: 0, events_ms: [], event_tokens: [] }} tries={1} />);
    expect(screen.getByText(/Nothing was timed/)).toBeTruthy();
  });
});

describe('a pipeline', () => {
  it('shows what each of its models answered, which said otherwise, and what its vote came to', () => {
    const member = {
      stage: 'read',
      role: 'member',
      latency_ms: 5,
      prompt_tokens: 1,
      completion_tokens: 2,
      is_reused: false,
    };
    const members = [
      { ...member, model: 'first', text: 'blue', error: null },
      { ...member, model: 'second', text: null, error: 'http_400' },
    ];
    const pipeline = {
      stages: [{ id: 'read', status: 'ok', n_valid: 1, confidence: 0.5, tie: false, dissent: ['first'] }],
    };
    show(<Members pipeline={pipeline} members={members} />);
    const [first, second] = ['first in read', 'second in read'].map((name) => screen.getByLabelText(name).textContent);
    expect(first).toContain('blue');
    expect(first).toContain('said otherwise');
    expect(second).toContain('http_400');
    expect(screen.getByRole('heading', { level: 3 }).textContent).toMatch(/read 1 usable · confidence 0.50/);
  });
});

describe('a page', () => {
  it('zooms by keys and buttons, and is whole again', () => {
    show(<PageImage address="/image" label="Page" boxes={[]} />);
    fireEvent.click(screen.getByRole('button', { name: 'Zoom in' }));
    expect(screen.getByText(/^140/)).toBeTruthy();
    fireEvent.keyDown(screen.getByRole('group'), { key: '0' });
    expect(screen.getByText(/^100/)).toBeTruthy();
  });

  it('whose image is gone says so', () => {
    show(<PageImage address="/image" label="Page" boxes={[]} />);
    fireEvent.error(screen.getByRole('img'));
    expect(screen.getByRole('alert').textContent).toContain('cannot be read');
  });
});
