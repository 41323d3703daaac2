/** Export runs in the format of another tool: ask for it, follow it, download it. */
import { Button, Modal, NativeSelect } from '@mantine/core';
import { queryOptions, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { api, body, type Schemas } from '../api/client';
import { Ago } from './Ago';
import { useAllowed } from './allowed';
import { bytes, count } from './format';
import { Loaded } from './Loaded';
import { Problem } from './Notes';
import { Scroll } from './Scroll';

type Export = Schemas['Export'];
type Body = Schemas['ExportCreate'];

const FORMATS: Record<Body['format'], string> = {
  parquet: 'Parquet: a table of the answers',
  csv: 'CSV: the same table as text',
  jsonl: 'JSON lines: an answer a line',
  'lm-eval': 'lm-eval: folder of its results and samples',
  inspect: 'Inspect: a log for inspect view',
  hf: 'Hugging Face: results for a model card',
};
const TONES: Record<Export['state'], string> = {
  QUEUED: '',
  RUNNING: 'busy',
  DONE: 'good',
  FAILED: 'bad',
  CANCELLED: '',
  EXPIRED: '',
};
const LISTED = 10;
const OPEN_MS = 1_000;

export const isWritten = ({ state }: Pick<Export, 'state'>): boolean => state === 'QUEUED' || state === 'RUNNING';

const exportsQuery = queryOptions({
  queryKey: ['exports'],
  queryFn: ({ signal }) => body(api.GET('/api/v1/exports', { params: { query: { limit: LISTED } }, signal })),
  refetchInterval: ({ state }) => (state.data?.items.some(isWritten) ? OPEN_MS : false),
});

/** What to export: some runs, or all of an experiment. */
export type Exported = { runs: string[] } | { experiment: string };

export function ExportButton({ of }: { of: Exported }) {
  const [isOpen, setIsOpen] = useState(false);
  if (!useAllowed('artifact:read')) return null;
  return (
    <>
      <Button size="xs" variant="default" onClick={() => setIsOpen(true)}>
        Export…
      </Button>
      <Modal
        opened={isOpen}
        onClose={() => setIsOpen(false)}
        title="Export"
        size="lg"
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        {isOpen ? <ExportsPart of={of} /> : null}
      </Modal>
    </>
  );
}

function ExportsPart({ of }: { of: Exported }) {
  const queries = useQueryClient();
  const [format, setFormat] = useState<Body['format']>('parquet');
  const listed = useQuery(exportsQuery);
  const asking = useMutation({
    mutationFn: () => body(api.POST('/api/v1/exports', { body: { format, ...of } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['exports'] }),
  });
  return (
    <div className="stack">
      <div className="filters">
        <NativeSelect
          size="xs"
          aria-label="Format"
          value={format}
          onChange={(event) => setFormat(event.currentTarget.value as Body['format'])}
          data={Object.entries(FORMATS).map(([value, label]) => ({ value, label }))}
        />
        <Button size="xs" loading={asking.isPending} onClick={() => asking.mutate()}>
          {'runs' in of
            ? of.runs.length === 1
              ? 'Export the run'
              : `Export ${of.runs.length} runs`
            : 'Export all runs'}
        </Button>
      </div>
      {asking.error ? <Problem error={asking.error} /> : null}
      <Loaded query={listed} what="the exports">
        {({ items }) =>
          items.length === 0 ? <p className="sub">No export was asked for yet.</p> : <Table exports={items} />
        }
      </Loaded>
    </div>
  );
}

function Table({ exports }: { exports: readonly Export[] }) {
  return (
    <Scroll label="Exports of the project, newest first">
      <table className="data">
        <thead>
          <tr>
            <th scope="col">Export</th>
            <th scope="col">State</th>
            <th scope="col" className="from-sm">
              Asked for
            </th>
            <th scope="col">
              <span className="visually-hidden">Download</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {exports.map((item) => (
            <tr key={item.id}>
              <td className="wide-text">
                <bdi>{item.name ?? item.format}</bdi>
                <div className="sub">
                  {item.runs.length === 1 ? 'one run' : `${item.runs.length} runs`}
                  {item.error ? ` · ${item.error}` : ''}
                </div>
              </td>
              <td>
                <span className={`badge ${TONES[item.state]}`}>{item.state.toLowerCase()}</span>
                {isWritten(item) ? <div className="sub">{progressOf(item)}</div> : null}
              </td>
              <td className="from-sm">
                <Ago at={item.created_at} />
              </td>
              <td>
                {item.state === 'DONE' ? (
                  <a href={`/api/v1/exports/${item.id}/content`} download={item.name ?? ''}>
                    Download {bytes(item.size_bytes)}
                  </a>
                ) : null}
                {isWritten(item) ? <Cancel id={item.id} /> : null}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function Cancel({ id }: { id: string }) {
  const queries = useQueryClient();
  const cancelling = useMutation({
    mutationFn: () => body(api.POST('/api/v1/exports/{export_id}/cancel', { params: { path: { export_id: id } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['exports'] }),
  });
  return (
    <Button size="compact-xs" variant="subtle" loading={cancelling.isPending} onClick={() => cancelling.mutate()}>
      Cancel
    </Button>
  );
}

export function progressOf({ done, total }: Pick<Export, 'done' | 'total'>): string {
  return total === null ? 'begins' : `${count(done)} of ${count(total)} answers`;
}
