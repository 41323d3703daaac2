/** A JSON value as an outline that opens and closes; text is shown as text, never as markup. */
type Value = unknown;

const OPEN_DEPTH = 2;

export function Json({ value, without = [] }: { value: Value; without?: readonly string[] }) {
  return <Node value={value} depth={0} without={without} />;
}

function Node({ value, depth, without = [] }: { value: Value; depth: number; without?: readonly string[] }) {
  if (value === null || typeof value !== 'object') return <Leaf value={value} />;
  const entries = Object.entries(value).filter(([key]) => !without.includes(key));
  if (entries.length === 0) return <span className="none">{Array.isArray(value) ? 'none' : 'nothing'}</span>;
  return (
    <ul className="json">
      {entries.map(([key, part]) => (
        <li key={key}>
          {part !== null && typeof part === 'object' && Object.keys(part).length > 0 ? (
            <details open={depth < OPEN_DEPTH && Object.keys(part).length <= 12}>
              <summary>
                <span className="json-key">{key}</span> <span className="none">{Object.keys(part).length}</span>
              </summary>
              <Node value={part} depth={depth + 1} />
            </details>
          ) : (
            <>
              <span className="json-key">{key}</span> <Node value={part} depth={depth + 1} />
            </>
          )}
        </li>
      ))}
    </ul>
  );
}

function Leaf({ value }: { value: Value }) {
  if (value === null || value === undefined) return <span className="none">none</span>;
  return <bdi className={typeof value === 'string' ? 'json-text' : 'json-value'}>{String(value)}</bdi>;
}
