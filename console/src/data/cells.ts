// Cells of an answer, column by column, as the bytes that the server has written.
//
// - CE1. A cell is what came: no number is rounded, no time is cut. Whoever needs a number or an
//   instant asks for it.
// - CE2. NULL is the one byte 0xff, which is no UTF-8: so "" and NULL are two, without a bitmap.
// - CE3. Rows come in batches, and a batch that is there never changes.
//
// Twelve bytes of overhead a cell at most, no object a cell: a million rows are some arrays.

import { timeOf } from "./time";

export interface Column {
  name: string;
  type: string;
}

/** The cells of one column in one batch. */
export interface CellColumn {
  bytes: Uint8Array<ArrayBuffer>;
  /** Where each cell ends; it begins where the one before has ended. */
  ends: Uint32Array<ArrayBuffer>;
}

export interface Batch {
  rows: number;
  columns: CellColumn[];
}

const NULL_BYTE = 0xff; // CE2
const utf8 = new TextDecoder();

/** Gathers the cells of one column. */
export class ColumnBuilder {
  private bytes = new Uint8Array(1 << 12);
  private ends = new Uint32Array(1 << 8);
  private used = 0;
  private count = 0;

  /** A cell with the bytes from..to of `source`. */
  add(source: Uint8Array, from: number, to: number): void {
    const size = to - from;
    this.reserve(size);
    // Most cells are short, and a loop is faster there than a view of the source.
    if (size < 32) {
      for (let i = from, out = this.used; i < to; i++, out++) this.bytes[out] = source[i]!;
    } else {
      this.bytes.set(source.subarray(from, to), this.used);
    }
    this.end(size);
  }

  addNull(): void {
    this.reserve(1);
    this.bytes[this.used] = NULL_BYTE;
    this.end(1);
  }

  /** Forgets cells behind the first `count`: those of a row that is not all there yet. */
  truncate(count: number): void {
    this.count = count;
    this.used = count === 0 ? 0 : this.ends[count - 1]!;
  }

  /** All cells so far; begins anew. */
  take(): CellColumn {
    const taken = { bytes: this.bytes.slice(0, this.used), ends: this.ends.slice(0, this.count) };
    this.truncate(0);
    return taken;
  }

  get size(): number {
    return this.used;
  }

  private end(size: number): void {
    if (this.count === this.ends.length) this.ends = grown(this.ends, this.count * 2);
    this.used += size;
    this.ends[this.count++] = this.used;
  }

  private reserve(size: number): void {
    const needed = this.used + size;
    if (this.bytes.length < needed) {
      const bytes = new Uint8Array(Math.max(needed, this.bytes.length * 2));
      bytes.set(this.bytes.subarray(0, this.used));
      this.bytes = bytes;
    }
  }
}

function grown(ends: Uint32Array<ArrayBuffer>, length: number): Uint32Array<ArrayBuffer> {
  const larger = new Uint32Array(length);
  larger.set(ends);
  return larger;
}

/** So many digits are an integer that a double holds, and so is a power of ten up to 10^22. */
const DIGITS_EXACT = 15;
const [MINUS, POINT] = [0x2d, 0x2e];

/** The number of some bytes; NaN if they are none. */
export function numberOf(bytes: Uint8Array, from: number, to: number): number {
  let [digits, fraction, hasPoint] = [0, 1, false];
  const first = bytes[from] === MINUS ? from + 1 : from;
  for (let at = first; at < to; at++) {
    const byte = bytes[at]!;
    if (byte === POINT && !hasPoint) {
      hasPoint = true;
    } else if (0x30 <= byte && byte <= 0x39) {
      digits = digits * 10 + byte - 0x30;
      if (hasPoint) fraction *= 10;
    } else {
      return Number(utf8.decode(bytes.subarray(from, to)));
    }
  }
  // One division of two exact numbers rounds once, as reading the text does.
  if (to === first || DIGITS_EXACT + 1 < to - first) {
    return Number(utf8.decode(bytes.subarray(from, to)) || NaN);
  }
  return (first === from ? digits : -digits) / fraction;
}

/** The rows of an answer, as far as they have come. */
export class Rows {
  readonly batches: Batch[] = [];
  /** The row that each batch begins with. */
  private readonly starts: number[] = [];
  /** How many there are. */
  length = 0;
  /** Of all cells. */
  bytes = 0;
  /** Neighbouring rows are asked for together. */
  private recent = 0;

  constructor(readonly columns: Column[]) {}

  push(batch: Batch): void {
    if (batch.rows === 0) return;
    this.starts.push(this.length);
    this.batches.push(batch);
    this.length += batch.rows;
    for (const column of batch.columns) this.bytes += column.bytes.length + 4 * column.ends.length;
  }

  /** The text of a cell; `null` for NULL. */
  cell(row: number, column: number): string | null {
    const batch = this.batchOf(row);
    const cells = this.batches[batch]!.columns[column]!;
    const at = row - this.starts[batch]!;
    const [from, to] = [at === 0 ? 0 : cells.ends[at - 1]!, cells.ends[at]!];
    if (to - from === 1 && cells.bytes[from] === NULL_BYTE) return null;
    return utf8.decode(cells.bytes.subarray(from, to));
  }

  /** A column as numbers; NaN where there is none. */
  numbers(column: number): Float64Array {
    return this.mapped(column, numberOf);
  }

  /** A column as seconds since 1970; NaN where there is no time. */
  times(column: number): Float64Array {
    return this.mapped(column, timeOf);
  }

  private mapped(
    column: number,
    value: (bytes: Uint8Array, from: number, to: number) => number,
  ): Float64Array {
    const values = new Float64Array(this.length);
    let row = 0;
    for (const batch of this.batches) {
      const { bytes, ends } = batch.columns[column]!;
      let from = 0;
      for (const to of ends) {
        const isNull = to === from || (to - from === 1 && bytes[from] === NULL_BYTE);
        values[row++] = isNull ? NaN : value(bytes, from, to);
        from = to;
      }
    }
    return values;
  }

  /** The batch that has a row. */
  private batchOf(row: number): number {
    const { starts, recent } = this;
    if (starts[recent]! <= row && row < (starts[recent + 1] ?? this.length)) return recent;
    let [low, high] = [0, starts.length];
    while (1 < high - low) {
      const middle = (low + high) >> 1;
      if (starts[middle]! <= row) low = middle;
      else high = middle;
    }
    this.recent = low;
    return low;
  }
}
