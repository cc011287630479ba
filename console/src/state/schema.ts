// Tables, their columns and partitions, and functions, as the server has them.
//
// - SC1. Columns of all tables are asked for once, and again when the list of tables has changed.

import { signal } from "@preact/signals";
import { ask } from "../api/exec";
import type { Catalog, CatalogFunction } from "../sql/completion";

export interface TableColumn {
  name: string;
  type: string;
  isDesignated: boolean;
  isKey: boolean;
  /** Of a symbol: how many texts it has. */
  symbols: number;
}

export interface Table {
  name: string;
  /** A query that stands for a table: it has no rows of its own. */
  isView: boolean;
  timestamp: string;
  partitionBy: string;
  rows: number;
  bytes: number;
  lastTxn: string;
  minTime: string;
  maxTime: string;
  isDedup: boolean;
  writeAmplification: number | null;
  columns: TableColumn[];
}

export interface Partition {
  name: string;
  rows: number;
  bytes: number;
  segments: number;
}

export const tables = signal<Table[]>([]);
export const functions = signal<CatalogFunction[]>([]);
export const schemaError = signal("");
export const isLoading = signal(false);

/** Tables whose columns are asked for at a time. */
const AT_ONCE = 4;

export function catalog(): Catalog {
  return { tables: tables.value, functions: functions.value };
}

export function findTable(name: string): Table | undefined {
  return tables.value.find((table) => table.name.toLowerCase() === name.toLowerCase());
}

let pending: Promise<void> | null = null;

/** Asks for all of it; calls while it is under way wait for the same. */
export function refreshSchema(): Promise<void> {
  pending ??= load().finally(() => (pending = null));
  return pending;
}

async function load(): Promise<void> {
  isLoading.value = true;
  try {
    const list = await readTables();
    for (let i = 0; i < list.length; i += AT_ONCE) {
      await Promise.all(list.slice(i, i + AT_ONCE).map(readColumns));
    }
    tables.value = list;
    if (functions.value.length === 0) functions.value = await readFunctions();
    schemaError.value = "";
  } catch (error) {
    schemaError.value = error instanceof Error ? error.message : String(error);
  } finally {
    isLoading.value = false;
  }
}

async function readTables(): Promise<Table[]> {
  const list = await ask("tables()");
  const found = list.map((row): Table => {
    const name = list.text(row, "table_name");
    const known = findTable(name);
    const amplification = list.cell(row, "write_amplification");
    return {
      name,
      isView: list.text(row, "table_type") === "V",
      timestamp: list.text(row, "designatedTimestamp"),
      partitionBy: list.text(row, "partitionBy"),
      rows: list.number(row, "table_row_count"),
      bytes: list.number(row, "disk_size"),
      lastTxn: list.text(row, "last_txn"),
      minTime: list.text(row, "table_min_timestamp"),
      maxTime: list.text(row, "table_max_timestamp"),
      isDedup: list.text(row, "dedup") === "true",
      writeAmplification: amplification === null ? null : Number(amplification),
      columns: known?.columns ?? [],
    };
  });
  return found.sort((a, b) => a.name.localeCompare(b.name));
}

async function readColumns(table: Table): Promise<void> {
  try {
    const list = await ask(`table_columns('${table.name.replaceAll("'", "''")}')`);
    table.columns = list.map((row) => ({
      name: list.text(row, "column"),
      type: list.text(row, "type"),
      isDesignated: list.text(row, "designated") === "true",
      isKey: list.text(row, "upsertKey") === "true",
      symbols: list.number(row, "symbolTableSize"),
    }));
  } catch {
    // A table that went in between: the next list does not have it.
  }
}

export async function readPartitions(table: string): Promise<Partition[]> {
  const list = await ask(`table_partitions('${table.replaceAll("'", "''")}')`);
  return list.map((row) => ({
    name: list.text(row, "name"),
    rows: list.number(row, "numRows"),
    bytes: list.number(row, "diskSize"),
    segments: list.number(row, "segments"),
  }));
}

async function readFunctions(): Promise<CatalogFunction[]> {
  const list = await ask("SELECT name, signature, type, description FROM functions()");
  const found = list.map((row) => ({
    name: list.text(row, "name"),
    signature: list.text(row, "signature"),
    kind: list.text(row, "type"),
    description: list.text(row, "description"),
  }));
  return found.filter(({ name }) => /^[a-z_][a-z0-9_]*$/i.test(name));
}
