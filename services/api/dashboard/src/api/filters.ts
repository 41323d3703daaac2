/** Filters as the API reads them: COLUMN OPERATOR VALUE, with commas between values. Everything here is pure. */

/** The filter that a column has one of these values, whose own commas separate nothing. */
export function equals(column: string, ...values: readonly string[]): string {
  return `${column}=${values.map((value) => value.replaceAll(',', '\\,')).join(',')}`;
}

/** The one value of a column that a filter by `equals` asks for; null where no filter does. */
export function equalled(where: readonly string[] | undefined, column: string): string | null {
  const written = where?.find((filter) => filter.startsWith(`${column}=`))?.slice(column.length + 1);
  return written?.replaceAll('\\,', ',') ?? null;
}
