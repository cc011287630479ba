// The tree of tables: columns with their types, partitions with their sizes.

import { useSignal } from "@preact/signals";
import { bytes, count, short } from "../data/format";
import { quoteName } from "../sql/names";
import { kindOf } from "../data/types";
import {
  isLoading,
  readPartitions,
  refreshSchema,
  schemaError,
  tables,
  type Partition,
  type Table,
  type TableColumn,
} from "../state/schema";
import { insertText, runText } from "./actions";
import { Icon } from "./icons";
import { SearchField } from "./search_field";

export function SchemaTree() {
  const filter = useSignal("");
  const wanted = filter.value.trim().toLowerCase();
  const shown = tables.value.filter((table) => matches(table, wanted));
  return (
    <section class="side" aria-label="Tables">
      <div class="side-tools">
        <SearchField filter={filter} what="Tables and columns" />
        <button
          class="tool"
          title="Reload the tables"
          aria-label="Reload the tables"
          onClick={() => void refreshSchema()}
        >
          <Icon name="refresh" />
        </button>
      </div>
      <div class="tree" role="tree" aria-label="Tables" aria-busy={isLoading.value}>
        {shown.map((table) => (
          <TableNode key={table.name} table={table} wanted={wanted} />
        ))}
        {shown.length === 0 && <p class="hint">{emptyWord(wanted)}</p>}
      </div>
    </section>
  );
}

function emptyWord(wanted: string): string {
  if (schemaError.value !== "") return `The tables cannot be read: ${schemaError.value}`;
  if (wanted !== "") return "No table or column has this name.";
  return isLoading.value
    ? "Reading…"
    : "There are no tables yet. Drop a CSV file anywhere on this page to create one.";
}

function matches({ name, columns }: Table, wanted: string): boolean {
  const has = (text: string) => text.toLowerCase().includes(wanted);
  return wanted === "" || has(name) || columns.some((column) => has(column.name));
}

function TableNode({ table, wanted }: { table: Table; wanted: string }) {
  const isOpen = useSignal(false);
  const byColumn = wanted !== "" && !table.name.toLowerCase().includes(wanted);
  const open = isOpen.value || byColumn;
  const query = () => runText(`SELECT * FROM ${quoteName(table.name)} LIMIT -1000;`, table.name);
  return (
    <div role="treeitem" aria-expanded={open} aria-label={table.name}>
      <div class="node table-node">
        <button
          class="node-main"
          onClick={() => (isOpen.value = !open)}
          onDblClick={query}
          title={tableTitle(table)}
        >
          <span class={`chevron ${open ? "open" : ""}`}>
            <Icon name="right" />
          </span>
          <span class="name">{table.name}</span>
          <span class="size">{table.isView ? "view" : short(table.rows)}</span>
        </button>
        <button
          class="tool"
          title={`The last 1,000 rows of ${table.name}`}
          aria-label={`Query ${table.name}`}
          onClick={query}
        >
          <Icon name="play" />
        </button>
      </div>
      {open && (
        <div role="group" class="children">
          {table.columns.map((column) => (
            <ColumnNode key={column.name} column={column} />
          ))}
          {table.partitionBy !== "" && table.partitionBy !== "NONE" && <Partitions table={table} />}
        </div>
      )}
    </div>
  );
}

function tableTitle(table: Table): string {
  const { name, rows, bytes: size, minTime, maxTime, partitionBy } = table;
  if (table.isView) return `${name}: a view`;
  const span = minTime === "" ? "" : `\n${minTime.slice(0, 19)} to ${maxTime.slice(0, 19)}`;
  const by = partitionBy === "" ? "" : `, by ${partitionBy.toLowerCase()}`;
  return `${name}: ${count(rows)} rows, ${bytes(size)} in segments${by}${span}`;
}

function ColumnNode({ column }: { column: TableColumn }) {
  const { name, type, isDesignated, isKey, symbols } = column;
  const notes = [
    isDesignated ? "designated timestamp" : "",
    isKey ? "key of DEDUP" : "",
    0 < symbols ? `${count(symbols)} symbols` : "",
  ].filter((note) => note !== "");
  return (
    <button
      role="treeitem"
      class="node column-node"
      onClick={() => insertText(quoteName(name))}
      title={[`${name} ${type}`, ...notes, "Click to insert it at the cursor"].join("\n")}
    >
      <span class={`dot ${kindOf(type)} ${isDesignated ? "designated" : ""}`} aria-hidden="true" />
      <span class="name">{name}</span>
      {isDesignated && (
        <span class="mark">
          <Icon name="clock" />
        </span>
      )}
      <span class="type">{type.toLowerCase()}</span>
    </button>
  );
}

/** The latest partitions are the ones that one looks for. */
const PARTITIONS_SHOWN = 30;

function Partitions({ table }: { table: Table }) {
  const list = useSignal<Partition[] | null>(null);
  const isOpen = useSignal(false);
  const error = useSignal("");
  const toggle = async () => {
    isOpen.value = !isOpen.value;
    if (!isOpen.value) return;
    try {
      list.value = (await readPartitions(table.name)).reverse();
    } catch (reason) {
      error.value = reason instanceof Error ? reason.message : String(reason);
    }
  };
  const shown = list.value?.slice(0, PARTITIONS_SHOWN) ?? [];
  const more = (list.value?.length ?? 0) - shown.length;
  return (
    <div role="treeitem" aria-expanded={isOpen.value} aria-label="partitions">
      <button class="node node-main" onClick={() => void toggle()}>
        <span class={`chevron ${isOpen.value ? "open" : ""}`}>
          <Icon name="right" />
        </span>
        <span class="name muted">partitions</span>
        <span class="type">
          {list.value ? count(list.value.length) : table.partitionBy.toLowerCase()}
        </span>
      </button>
      {isOpen.value && (
        <div role="group" class="children">
          {error.value !== "" && <p class="hint">{error.value}</p>}
          {shown.map(({ name, rows, bytes: size, segments }) => (
            <div
              class="node partition"
              role="treeitem"
              key={name}
              title={`${name}: ${count(rows)} rows, ${bytes(size)} in ${count(segments)} segments`}
            >
              <span class="name">{name}</span>
              <span class="type">{short(rows)}</span>
              <span class="type wide">{size === 0 ? "in log" : bytes(size)}</span>
            </div>
          ))}
          {0 < more && (
            <p class="hint">
              and {count(more)} older ones: SHOW PARTITIONS FROM {table.name}
            </p>
          )}
        </div>
      )}
    </div>
  );
}
