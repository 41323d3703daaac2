/** The gate: a policy put together from rules or pasted as YAML, and what each rule says of the comparison. */
import { Button, NativeSelect, Textarea, TextInput } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { words } from '../../ui/format';
import { Problem } from '../../ui/Notes';
import type { Compared } from './queries';
import { compare as route } from './route';
import { KINDS, type Kind, ruleOf, withRule } from './rules';

const TONES = { passed: 'good', failed: 'bad', inconclusive: 'warn' } as const;
const MARKS = { passed: '✓', failed: '✕', inconclusive: '?' } as const;

interface Props {
  metrics: readonly string[];
  checked: Compared | undefined;
  error: unknown;
  isChecking: boolean;
}

export function Gate({ metrics, checked, error, isChecking }: Props) {
  const { gate } = route.useSearch();
  const [isOpen, setIsOpen] = useState(gate !== undefined);
  return (
    <section className="card" aria-label="Gate">
      <header>
        <h2>Gate</h2>
        {checked?.is_gate_met === null || checked === undefined ? (
          <span className="sub">rules that the run must meet, as a build checks them</span>
        ) : (
          <span className={`badge ${checked.is_gate_met ? 'good' : 'bad'}`}>
            {checked.is_gate_met ? '✓ met' : '✕ not met'}
          </span>
        )}
        <Button size="compact-xs" variant="default" className="end" onClick={() => setIsOpen(!isOpen)}>
          {isOpen ? 'Hide the policy' : 'Set a policy'}
        </Button>
      </header>
      <div className="body stack">
        {isOpen ? <Policy key={gate ?? ''} given={gate ?? ''} metrics={metrics} isChecking={isChecking} /> : null}
        {gate !== undefined && error ? <Problem error={error} /> : null}
        {gate !== undefined && checked ? <Checks checked={checked} /> : null}
      </div>
    </section>
  );
}

function Checks({ checked }: { checked: Compared }) {
  return (
    <ul className="gate-checks">
      {checked.checks.map((check) => (
        <li key={`${check.rule} ${check.message}`}>
          <span className={`badge ${TONES[check.status]}`}>
            <span aria-hidden="true">{MARKS[check.status]}</span> {check.status}
          </span>
          <span>
            <strong>{check.rule}</strong> <span className="sub">{check.message}</span>
          </span>
        </li>
      ))}
    </ul>
  );
}

function Policy({ given, metrics, isChecking }: { given: string; metrics: readonly string[]; isChecking: boolean }) {
  const navigate = useNavigate({ from: '/compare' });
  const [text, setText] = useState(given);
  const check = (policy: string) =>
    void navigate({ search: (old) => ({ ...old, gate: policy.trim() || undefined }) as never, replace: true });
  return (
    <div className="stack">
      <NewRule metrics={metrics} add={(rule) => setText(withRule(text, rule))} />
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          check(text);
        }}
      >
        <Textarea
          size="xs"
          label="Policy"
          description="YAML, as vlmhyperbench compare --gate reads it"
          placeholder={'rules:\n- metric: anls\n  max_drop: 0.01'}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          autosize
          minRows={4}
          maxRows={16}
          maxLength={20_000}
          spellCheck={false}
          classNames={{ input: 'mono' }}
        />
        <div className="filters">
          <Button size="xs" type="submit" loading={isChecking} disabled={text.trim() === ''}>
            Check
          </Button>
          {given ? (
            <Button size="xs" variant="default" onClick={() => check('')}>
              Remove the gate
            </Button>
          ) : null}
        </div>
      </form>
    </div>
  );
}

function NewRule({ metrics, add }: { metrics: readonly string[]; add: (rule: string) => void }) {
  const [kind, setKind] = useState<Kind>('max_drop');
  const [metric, setMetric] = useState(metrics[0] ?? '');
  const choice = KINDS.find((known) => known.kind === kind) ?? KINDS[0];
  const [limit, setLimit] = useState(choice?.usual ?? '');
  const rule = ruleOf(kind, metric, limit);
  return (
    <form
      className="filters"
      aria-label="A rule"
      onSubmit={(event) => {
        event.preventDefault();
        if (rule !== null) add(rule);
      }}
    >
      {choice?.isOfMetric ? (
        <NativeSelect
          size="xs"
          aria-label="Metric of the rule"
          value={metric}
          onChange={(event) => setMetric(event.currentTarget.value)}
          data={metrics.map((name) => ({ value: name, label: words(name) }))}
        />
      ) : null}
      <NativeSelect
        size="xs"
        aria-label="Kind of the rule"
        value={kind}
        onChange={(event) => {
          const chosen = KINDS.find((known) => known.kind === event.currentTarget.value);
          if (chosen === undefined) return;
          setKind(chosen.kind);
          setLimit(chosen.usual);
        }}
        data={KINDS.map((known) => ({ value: known.kind, label: known.label }))}
      />
      <TextInput
        size="xs"
        aria-label="Limit of the rule"
        inputMode="decimal"
        value={limit}
        onChange={(event) => setLimit(event.currentTarget.value)}
        className="gate-limit"
      />
      <Button size="xs" variant="default" type="submit" disabled={rule === null}>
        Add the rule
      </Button>
    </form>
  );
}
