/** Every metric of a run with its interval, drawn on the scale from 0 to 1, and by the groups of the report. */
import { SegmentedControl } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import type { Schemas } from '../../api/client';
import { count, words } from '../../ui/format';
import { IntervalBar } from '../../ui/IntervalBar';
import { Measured } from '../../ui/Measured';
import { Scroll } from '../../ui/Scroll';
import { run as route } from './route';

type Score = Schemas['QualityScore'];
type Group = Schemas['GroupScore'];

export function Quality({ quality }: { quality: readonly Score[] }) {
  return (
    <div className="grid wide">
      {quality.map((metric) => (
        <Metric key={`${metric.metric}-${metric.evaluation_id}`} metric={metric} />
      ))}
    </div>
  );
}

function Metric({ metric }: { metric: Score }) {
  const groups = Object.entries(metric.groups ?? {}).filter(([, rows]) => rows.length > 1);
  const search = route.useSearch();
  const navigate = useNavigate({ from: '/runs/$id' });
  const [by, shown = []] = groups.find(([name]) => name === search.by) ?? groups[0] ?? [];
  return (
    <section className="card" aria-label={metric.label}>
      <header>
        <h2>{metric.label}</h2>
        <span className="sub" title={metric.evaluation_id}>
          {metric.extractor} · v{metric.version}
        </span>
        {groups.length > 1 ? (
          <SegmentedControl
            size="xs"
            aria-label={`Groups of ${metric.label}`}
            value={by ?? ''}
            onChange={(name) =>
              void navigate({ search: (old) => ({ ...old, by: name }), replace: true, resetScroll: false })
            }
            data={groups.map(([name]) => ({ value: name, label: words(name) }))}
            className="end"
          />
        ) : null}
      </header>
      <Scroll label={`Table of ${metric.label}`}>
        <table className="data">
          <thead>
            <tr>
              <th scope="col">{by ? words(by) : 'Group'}</th>
              <th scope="col">
                <span className="visually-hidden">Interval on a scale</span>
              </th>
              <th scope="col" className="num">
                {metric.direction === 'lower' ? 'Value (lower is better)' : 'Value'}
              </th>
              <th scope="col" className="num">
                Answers
              </th>
            </tr>
          </thead>
          <tbody>
            <Line name="All" group={metric} isTotal />
            {shown.map((group) => (
              <Line key={group.group.join(' ')} name={group.group.join(' · ')} group={group} />
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}

function Line({ name, group, isTotal = false }: { name: string; group: Group; isTotal?: boolean }) {
  const missing = group.n_without_value ? `${count(group.n_without_value)} without a value` : undefined;
  return (
    <tr className={isTotal ? 'total' : undefined}>
      <th scope="row">
        <bdi>{name}</bdi>
      </th>
      <td className="bar-cell">
        <IntervalBar value={group.value} low={group.ci_low} high={group.ci_high} />
      </td>
      <td className="num">
        <Measured value={group.value} low={group.ci_low} high={group.ci_high} />
      </td>
      <td className="num" title={missing}>
        {count(group.n)}
        {group.n_without_value ? <small className="sub"> +{count(group.n_without_value)}</small> : null}
      </td>
    </tr>
  );
}
