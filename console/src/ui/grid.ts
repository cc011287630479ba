// The rows of an answer as a grid that holds as many elements as are seen, however many rows and
// columns there are.
//
// - GR1. An element shows one row until that row is out of sight; then it shows another one.
// - GR2. Nothing is drawn but in an animation frame, once for all that has changed.
// - GR3. What is not seen has no element: screen readers are told how many rows and columns there
//   are, and which ones these are.

import type { Rows } from "../data/cells";
import { toTsv, type Region } from "../data/table_text";
import { isRightAligned, kindOf } from "../data/types";
import { columnsWithin, edgesOf, fittingWidth } from "./columns";
import { barOf, clampTop, spaceOf, topOf } from "./scroll";
import { moved, regionOf, type Place, type Selection } from "./selection";

const ROW = 24;
/** Rows beyond the edges, so that fast scrolling shows no gap. */
const OVERSCAN = 8;
const WIDTH_MIN = 40;
/** Characters of a cell that are drawn; the rest is in the copy. */
const CHARS_MAX = 400;
/** Cells that a clipboard takes without the page standing still. */
const COPY_CELLS_MAX = 3_000_000;

export interface GridListener {
  onCurrent(place: Place | null): void;
  say(text: string): void;
}

interface Slot {
  element: HTMLElement;
  gutter: HTMLElement;
  cells: HTMLElement[];
  row: number;
  /** Of what was drawn: the same picture is not drawn again. */
  picture: string;
}

export class Grid {
  private readonly root = element("div", "grid");
  private readonly head = element("div", "grid-head");
  private readonly headCells = element("div", "grid-head-cells");
  private readonly corner = element("div", "grid-corner");
  private readonly body = element("div", "grid-body");
  private readonly space = element("div", "grid-space");
  private slots: Slot[] = [];
  private rows: Rows | null = null;
  private timestamp = -1;
  private widths: number[] = [];
  /** Columns whose width somebody has chosen. */
  private readonly chosen = new Set<number>();
  /** Rows when widths were looked at last. */
  private fitted = 0;
  private edges = [0];
  private gutter = 48;
  private top = 0;
  /** Where we have put the bar ourselves. */
  private bar = 0;
  private selection: Selection | null = null;
  /** Rises with everything that changes cells which are seen already. */
  private era = 0;
  private frame = 0;
  private readonly observer = new ResizeObserver(() => this.redraw());

  constructor(
    host: HTMLElement,
    private readonly listener: GridListener,
  ) {
    this.root.tabIndex = 0;
    this.root.setAttribute("role", "grid");
    this.root.setAttribute("aria-label", "Rows of the answer");
    this.root.setAttribute("aria-multiselectable", "true");
    this.head.setAttribute("role", "row");
    this.headCells.setAttribute("role", "presentation");
    this.space.setAttribute("role", "rowgroup");
    this.head.append(this.corner, this.headCells);
    this.body.append(this.space);
    this.root.append(this.head, this.body);
    host.append(this.root);
    this.listen();
    this.observer.observe(this.body);
  }

  destroy(): void {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
    this.root.remove();
  }

  focus(): void {
    this.root.focus();
  }

  /** Shows rows; the same ones again if there are more of them now. */
  show(rows: Rows | null, timestamp: number): void {
    if (rows !== this.rows) this.begin(rows, timestamp);
    else if (rows && 2 * this.fitted < rows.length) this.widen();
    this.redraw();
  }

  private begin(rows: Rows | null, timestamp: number): void {
    this.rows = rows;
    this.timestamp = timestamp;
    this.selection = null;
    this.listener.onCurrent(null);
    this.widths = rows ? rows.columns.map(() => 0) : [];
    this.chosen.clear();
    this.scrollTo(0);
    this.body.scrollLeft = 0;
    this.widen();
  }

  /** Makes columns wide enough for what has come, but those that somebody has made so wide. */
  private widen(): void {
    const rows = this.rows;
    this.fitted = rows?.length ?? 0;
    this.widths = this.widths.map((width, column) =>
      this.chosen.has(column) ? width : Math.max(width, fittingWidth(rows!, column)),
    );
    this.era += 1;
    this.layOut();
  }

  /** Puts the names where the columns are. */
  private layOut(): void {
    this.edges = edgesOf(this.widths);
    this.headCells.replaceChildren(...(this.rows?.columns ?? []).map((_, i) => this.headCell(i)));
    this.root.setAttribute("aria-colcount", String(this.widths.length + 1));
    this.slots.forEach((slot) => (slot.picture = ""));
    this.redraw();
  }

  private headCell(column: number): HTMLElement {
    const { name, type } = this.rows!.columns[column]!;
    const cell = element("div", "grid-name");
    cell.setAttribute("role", "columnheader");
    cell.setAttribute("aria-colindex", String(column + 2));
    cell.dataset.column = String(column);
    cell.classList.toggle("right", isRightAligned(type));
    const [title, kind, handle] = [element("b"), element("i"), element("span", "grid-resize")];
    title.textContent = name;
    kind.textContent = type.toLowerCase();
    if (column === this.timestamp) {
      cell.classList.add("designated");
      cell.title = "designated timestamp";
    }
    handle.title = "Drag to resize, double click to fit";
    cell.append(title, kind, handle);
    place(cell, this.edges[column]!, this.widths[column]!);
    return cell;
  }

  redraw(): void {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.draw()); // GR2
  }

  private get seen(): number {
    return this.body.clientHeight;
  }

  private get total(): number {
    return (this.rows?.length ?? 0) * ROW;
  }

  private draw(): void {
    this.frame = 0;
    const rows = this.rows;
    this.root.classList.toggle("empty", rows === null);
    const gutter = Math.max(40, (rows?.length ?? 0).toLocaleString("en-US").length * 6.7 + 18);
    this.gutter = gutter;
    this.corner.style.width = `${gutter}px`;
    const width = this.edges.at(-1)! + gutter;
    this.space.style.width = `${width}px`;
    this.space.style.height = `${spaceOf(this.total)}px`;
    this.root.setAttribute("aria-rowcount", String((rows?.length ?? 0) + 1));
    this.scrollTo(clampTop(this.top, this.total, this.seen));
    const left = this.body.scrollLeft;
    this.headCells.style.transform = `translateX(${gutter - left}px)`;
    const columns = columnsWithin(this.edges, left, left + this.body.clientWidth - gutter);
    const first = Math.max(0, Math.floor(this.top / ROW) - OVERSCAN);
    const last = Math.min(rows?.length ?? 0, Math.ceil((this.top + this.seen) / ROW) + OVERSCAN);
    this.haveSlots(Math.ceil(this.seen / ROW) + 2 * OVERSCAN + 2);
    for (const slot of this.slots) slot.element.hidden = true;
    for (let row = first; row < last; row++) {
      this.drawRow(this.slots[row % this.slots.length]!, row, columns, width); // GR1
    }
  }

  private haveSlots(count: number): void {
    if (count <= this.slots.length) return;
    while (this.slots.length < count) {
      const slot = { element: element("div", "grid-row"), gutter: element("div", "grid-gutter") };
      slot.element.setAttribute("role", "row");
      slot.gutter.setAttribute("role", "rowheader");
      slot.element.append(slot.gutter);
      this.space.append(slot.element);
      this.slots.push({ ...slot, cells: [], row: -1, picture: "" });
    }
    this.slots.forEach((slot) => (slot.picture = ""));
  }

  private drawRow(slot: Slot, row: number, [from, to]: [number, number], width: number): void {
    slot.element.hidden = false;
    slot.element.style.transform = `translateY(${row * ROW - this.top + this.body.scrollTop}px)`;
    const picture = `${row} ${from} ${to} ${this.era} ${this.gutter}`;
    if (slot.picture === picture) return;
    slot.picture = picture;
    slot.row = row;
    slot.element.style.width = `${width}px`;
    slot.element.classList.toggle("odd", row % 2 === 1);
    slot.element.setAttribute("aria-rowindex", String(row + 2)); // GR3
    slot.gutter.textContent = (row + 1).toLocaleString("en-US");
    slot.gutter.style.width = `${this.gutter}px`;
    while (slot.cells.length < to - from) {
      const cell = element("div", "grid-cell");
      cell.setAttribute("role", "gridcell");
      slot.element.append(cell);
      slot.cells.push(cell);
    }
    slot.cells.forEach((cell, i) => {
      cell.hidden = to - from <= i;
      if (!cell.hidden) this.drawCell(cell, row, from + i);
    });
  }

  private drawCell(cell: HTMLElement, row: number, column: number): void {
    const { type } = this.rows!.columns[column]!;
    const text = this.rows!.cell(row, column);
    cell.textContent = text === null ? "NULL" : oneLine(text);
    cell.className = `grid-cell ${kindOf(type)}`;
    cell.classList.toggle("null", text === null);
    cell.classList.toggle("right", isRightAligned(type));
    cell.setAttribute("aria-colindex", String(column + 2));
    cell.dataset.column = String(column);
    const region = this.selection && regionOf(this.selection);
    const isSelected = region !== null && isWithin(region, row, column);
    const head = this.selection?.head;
    const isCurrent = head?.row === row && head.column === column;
    cell.classList.toggle("selected", isSelected);
    cell.classList.toggle("current", isCurrent);
    cell.setAttribute("aria-selected", String(isSelected));
    if (isCurrent) {
      cell.id = "grid-current";
      this.root.setAttribute("aria-activedescendant", cell.id);
    } else {
      cell.removeAttribute("id");
    }
    place(cell, this.edges[column]! + this.gutter, this.widths[column]!);
  }

  private scrollTo(top: number): void {
    this.top = top;
    const bar = barOf(top, this.total, this.seen);
    if (Math.abs(this.body.scrollTop - bar) < 1) return;
    this.body.scrollTop = bar;
    this.bar = this.body.scrollTop;
  }

  private listen(): void {
    this.body.addEventListener("scroll", () => this.onScroll(), { passive: true });
    this.body.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    this.root.addEventListener("keydown", (event) => this.onKey(event));
    this.space.addEventListener("pointerdown", (event) => this.onPointer(event));
    this.headCells.addEventListener("pointerdown", (event) => this.onHeadPointer(event));
    this.headCells.addEventListener("dblclick", (event) => this.onHeadDouble(event));
  }

  private onScroll(): void {
    // The place that we have set ourselves says less than `top` knows.
    if (1 < Math.abs(this.body.scrollTop - this.bar) || spaceOf(this.total) === this.total) {
      this.top = topOf(this.body.scrollTop, this.total, this.seen);
    }
    this.bar = this.body.scrollTop;
    this.redraw();
  }

  private onWheel(event: WheelEvent): void {
    if (spaceOf(this.total) === this.total || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? ROW : 1;
    this.scrollTo(clampTop(this.top + event.deltaY * unit, this.total, this.seen));
    this.body.scrollLeft += event.deltaX * unit;
    this.redraw();
  }

  private onKey(event: KeyboardEvent): void {
    const rows = this.rows;
    if (!rows || rows.length === 0) return;
    const isFar = event.ctrlKey || event.metaKey;
    const key = event.key.toLowerCase();
    if (isFar && key === "a") this.selectAll();
    else if (isFar && key === "c") void this.copy(event.shiftKey ? "with names" : "cells alone");
    else if (!this.move(event, isFar)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  private move(event: KeyboardEvent, isFar: boolean): boolean {
    if (event.altKey) return false;
    const size = {
      rows: this.rows!.length,
      columns: this.widths.length,
      page: Math.max(1, Math.floor(this.seen / ROW) - 1),
    };
    const from = this.selection?.head ?? { row: 0, column: 0 };
    const head = this.selection ? moved(from, event.key, isFar, size) : firstMove(event.key, from);
    if (head === null) return false;
    this.select({ anchor: event.shiftKey ? (this.selection?.anchor ?? head) : head, head });
    this.reveal(head);
    return true;
  }

  private select(selection: Selection | null): void {
    this.selection = selection;
    this.era += 1;
    this.listener.onCurrent(selection?.head ?? null);
    this.redraw();
  }

  private selectAll(): void {
    const head = { row: this.rows!.length - 1, column: this.widths.length - 1 };
    this.select({ anchor: { row: 0, column: 0 }, head });
  }

  private reveal({ row, column }: Place): void {
    const [above, below] = [row * ROW, (row + 1) * ROW - this.seen];
    if (above < this.top) this.scrollTo(above);
    else if (this.top < below) this.scrollTo(below);
    const [left, right] = [this.edges[column]!, this.edges[column + 1]!];
    const seen = this.body.clientWidth - this.gutter;
    if (left < this.body.scrollLeft) this.body.scrollLeft = left;
    else if (this.body.scrollLeft + seen < right) this.body.scrollLeft = right - seen;
    this.redraw();
  }

  private onPointer(event: PointerEvent): void {
    const at = this.placeAt(event);
    if (at === null || event.button !== 0) return;
    this.root.focus({ preventScroll: true });
    event.preventDefault();
    const anchor = event.shiftKey && this.selection ? this.selection.anchor : at;
    this.select({ anchor, head: at });
    const move = (next: PointerEvent) => {
      const head = this.placeAt(next);
      if (head) this.select({ anchor, head });
    };
    follow(event, move);
  }

  /** The cell below the pointer; the whole row's first one in the gutter. */
  private placeAt(event: PointerEvent): Place | null {
    const box = this.body.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top + this.top) / ROW);
    const x = event.clientX - box.left - this.gutter + this.body.scrollLeft;
    const [column] = columnsWithin(this.edges, x, x);
    const isThere =
      this.rows !== null && 0 <= row && row < this.rows.length && 0 < this.widths.length;
    return isThere ? { row, column } : null;
  }

  private onHeadPointer(event: PointerEvent): void {
    const column = columnOf(event.target);
    if (column === null || !this.rows) return;
    event.preventDefault();
    if (isHandle(event.target)) {
      const [start, width] = [event.clientX, this.widths[column]!];
      follow(event, (next) => this.resize(column, width + next.clientX - start));
    } else if (0 < this.rows.length) {
      this.root.focus({ preventScroll: true });
      const last = { row: this.rows.length - 1, column };
      this.select({ anchor: last, head: { row: 0, column } });
    }
  }

  private onHeadDouble(event: MouseEvent): void {
    const column = columnOf(event.target);
    if (column !== null && this.rows && isHandle(event.target)) {
      this.resize(column, fittingWidth(this.rows, column));
    }
  }

  private resize(column: number, width: number): void {
    this.widths[column] = Math.max(WIDTH_MIN, Math.round(width));
    this.chosen.add(column);
    this.era += 1;
    this.edges = edgesOf(this.widths);
    [...this.headCells.children].forEach((cell, i) =>
      place(cell as HTMLElement, this.edges[i]!, this.widths[i]!),
    );
    this.redraw();
  }

  private async copy(header: "with names" | "cells alone"): Promise<void> {
    if (!this.selection || !this.rows) return;
    const region = regionOf(this.selection);
    const cells = (region.to - region.from) * (region.right - region.left);
    if (COPY_CELLS_MAX < cells) {
      this.listener.say(
        `More than ${COPY_CELLS_MAX.toLocaleString("en-US")} cells: export them instead`,
      );
      return;
    }
    try {
      await navigator.clipboard.writeText(toTsv(this.rows, region, header));
      this.listener.say(`Copied ${cells.toLocaleString("en-US")} cell${cells === 1 ? "" : "s"}`);
    } catch {
      this.listener.say("The browser does not let us write to the clipboard");
    }
  }
}

/** The first key selects the first cell. */
function firstMove(key: string, first: Place): Place | null {
  return /^(Arrow|Page|Home|End)/.test(key) ? first : null;
}

function oneLine(text: string): string {
  const flat = text.length <= CHARS_MAX ? text : `${text.slice(0, CHARS_MAX)}…`;
  return flat.replace(/[\r\n\t]+/g, " ⏎ ");
}

function isWithin({ from, to, left, right }: Region, row: number, column: number): boolean {
  return from <= row && row < to && left <= column && column < right;
}

function element(name: string, className = ""): HTMLElement {
  const made = document.createElement(name);
  made.className = className;
  return made;
}

function place(cell: HTMLElement, left: number, width: number): void {
  cell.style.left = `${left}px`;
  cell.style.width = `${width}px`;
}

function columnOf(target: EventTarget | null): number | null {
  const cell = target instanceof Element ? target.closest<HTMLElement>("[data-column]") : null;
  return cell ? Number(cell.dataset.column) : null;
}

function isHandle(target: EventTarget | null): boolean {
  return target instanceof Element && target.classList.contains("grid-resize");
}

/** Calls back for each move of the pointer until it is let go. */
export function follow(event: PointerEvent, move: (event: PointerEvent) => void): void {
  const end = () => {
    window.removeEventListener("pointermove", move);
    window.removeEventListener("pointerup", end);
    window.removeEventListener("pointercancel", end);
  };
  window.addEventListener("pointermove", move);
  window.addEventListener("pointerup", end);
  window.addEventListener("pointercancel", end);
  event.stopPropagation();
}
