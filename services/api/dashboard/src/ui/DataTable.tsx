/** A table of rows with a link each: sticky head, right-aligned numbers, columns that narrow windows leave out. */
import { type ColumnDef, createColumnHelper, type RowData, tableFeatures, useTable } from '@tanstack/react-table';
import type { ReactNode } from 'react';
import { Scroll } from './Scroll';

const features = tableFeatures({});
export type Features = typeof features;
export type Column<Row extends RowData> = ColumnDef<Features, Row, unknown>;

export interface ColumnSpec<Row> {
  id: string;
  header: ReactNode;
  cell: (row: Row) => ReactNode;
  isNumber?: boolean;
  /** Windows narrower than this hide the column. */
  from?: 'sm' | 'md' | 'lg' | 'xl';
}

/** Make the columns of a table; keep them at module scope or in a memo. */
export function columnsOf<Row extends RowData>(specs: readonly ColumnSpec<Row>[]): Column<Row>[] {
  const helper = createColumnHelper<Features, Row>();
  return specs.map((spec) =>
    helper.display({
      id: spec.id,
      header: () => spec.header,
      cell: (context) => spec.cell(context.row.original),
      meta: { className: [spec.isNumber ? 'num' : '', spec.from ? `from-${spec.from}` : ''].join(' ').trim() },
    }),
  ) as Column<Row>[];
}

interface Props<Row extends RowData> {
  columns: Column<Row>[];
  rows: readonly Row[];
  idOf: (row: Row) => string;
  label: string;
  /** The row that j and k have moved to. */
  current?: string | undefined;
}

function classOf(meta: unknown): string {
  return (meta as { className?: string } | undefined)?.className ?? '';
}

export function DataTable<Row extends RowData>({ columns, rows, idOf, label, current }: Props<Row>) {
  const table = useTable({ features, columns, data: rows as Row[], getRowId: idOf });
  return (
    <Scroll label={label}>
      <table className="data">
        <thead>
          {table.getHeaderGroups().map((group) => (
            <tr key={group.id}>
              {group.headers.map((header) => (
                <th key={header.id} scope="col" className={classOf(header.column.columnDef.meta)}>
                  <table.FlexRender header={header} />
                </th>
              ))}
            </tr>
          ))}
        </thead>
        <tbody>
          {table.getRowModel().rows.map((row) => (
            <tr key={row.id} data-row={row.id} className={row.id === current ? 'current' : undefined}>
              {row.getAllCells().map((cell) => (
                <td key={cell.id} className={classOf(cell.column.columnDef.meta)}>
                  <table.FlexRender cell={cell} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}
