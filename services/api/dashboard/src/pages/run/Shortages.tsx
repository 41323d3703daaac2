/** Why a model was not loaded: need, have and shortfall of each memory, and what would change it. */
import type { Schemas } from '../../api/client';
import { bytes, words } from '../../ui/format';
import { Scroll } from '../../ui/Scroll';

export function Shortages({ shortages }: { shortages: readonly Schemas['MemoryShortage'][] }) {
  return shortages.map((shortage) => (
    <section key={shortage.model} className="card" aria-label={`Memory of ${shortage.model}`}>
      <header>
        <h2>
          Memory of <bdi>{shortage.model}</bdi>
        </h2>
        <span className="sub">{shortage.has_run_out ? 'it ran out while it answered' : 'it does not fit'}</span>
      </header>
      <Scroll label="Table of memory">
        <table className="data">
          <thead>
            <tr>
              <th scope="col">Memory</th>
              {['Need', 'Have', 'Shortfall'].map((name) => (
                <th key={name} scope="col" className="num">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shortage.rows.map((row) => (
              <tr key={row.memory}>
                <td>{words(row.memory)}</td>
                <td className="num">{bytes(row.need_bytes)}</td>
                <td className="num">{bytes(row.have_bytes)}</td>
                <td className="num">{bytes(row.shortfall_bytes)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <Knobs knobs={shortage.knobs} />
    </section>
  ));
}

function Knobs({ knobs }: { knobs: readonly Schemas['MemoryKnob'][] }) {
  const fixes = knobs.filter((knob) => knob.fixes);
  const others = knobs.filter((knob) => !knob.fixes);
  if (knobs.length === 0) return null;
  return (
    <div className="body">
      {fixes.length ? (
        <p className="note-text">
          This would fit it: <code>{fixes.map((knob) => `${knob.name}: ${knob.to}`).join(', or ')}</code>
        </p>
      ) : null}
      {others.length ? (
        <p className="note-text">
          Smaller values need less: <code>{others.map((knob) => knob.name).join(', ')}</code>
        </p>
      ) : null}
    </div>
  );
}
