// The view of the server: how fast rows come, what memory is for, what tables take.

import { useEffect } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { ask } from "../api/exec";
import { bytes, count, plural, short } from "../data/format";
import { quoteName } from "../sql/names";
import { refreshSchema, tables } from "../state/schema";
import { metrics, samples, state, version, type Sample } from "../state/server";
import { runText } from "./actions";
import { Spark } from "./spark";

const EVERY_MS = 5_000;

export function ServerView() {
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) void refreshSchema();
    }, EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <div class="page">
      <div class="page-head">
        <h1>Server</h1>
        <p class="muted">
          {state.value === "up"
            ? `Tidegate ${version.value} at ${location.host}`
            : "The server does not answer"}
          {" · the last five minutes"}
        </p>
      </div>
      <Tiles />
      <Memory />
      <TableList />
    </div>
  );
}

const perSecond = (value: number) => (Number.isNaN(value) ? "–" : `${short(value)}/s`);

function Tiles() {
  const list = samples.value;
  const last = list.at(-1);
  const of = (pick: (sample: Sample) => number) => list.map(pick);
  return (
    <div class="tiles">
      <Tile
        name="Rows written"
        value={perSecond(last?.rowsPerSecond ?? NaN)}
        points={of((one) => one.rowsPerSecond)}
        note={`${count(metrics.value.get("rows_written_total") ?? 0)} in lines since the start`}
      />
      <Tile
        name="Log written"
        value={last ? `${bytes(last.walPerSecond || 0)}/s` : "–"}
        points={of((one) => one.walPerSecond)}
        note={`${bytes(metrics.value.get("wal_written_bytes_total") ?? 0)} since the start`}
      />
      <Tile
        name="Statements"
        value={perSecond(last?.queriesPerSecond ?? NaN)}
        points={of((one) => one.queriesPerSecond)}
        note={`${count(metrics.value.get("queries_running") ?? 0)} running now`}
      />
      <Tile
        name="Memory"
        value={bytes(last?.memory ?? 0)}
        points={of((one) => one.memory)}
        note={`of ${bytes(metrics.value.get("memory_limit_bytes") ?? 0)}`}
      />
      <Tile
        name="Rows in memtables"
        value={bytes(last?.memtables ?? 0)}
        points={of((one) => one.memtables)}
        note="committed, not in segments yet"
      />
    </div>
  );
}

function Tile({
  name,
  value,
  note,
  points,
}: {
  name: string;
  value: string;
  note: string;
  points: number[];
}) {
  return (
    <section class="card tile" aria-label={name}>
      <h2>{name}</h2>
      <p class="value">{value}</p>
      <Spark points={points} />
      <p class="muted">{note}</p>
    </section>
  );
}

interface Share {
  name: string;
  used: number;
  limit: number | null;
}

/** A name and its limit are two lines of memory_metrics(): `queries` and `queries_limit`. */
async function readMemory(): Promise<Share[]> {
  const list = await ask("memory_metrics()");
  const values = new Map(
    list.map((row) => [list.text(row, "memory_tag"), list.number(row, "bytes")]),
  );
  const names = [...values.keys()].filter((name) => !name.endsWith("_limit"));
  return names.map((name) => ({
    name,
    used: values.get(name)!,
    limit: values.get(`${name}_limit`) ?? null,
  }));
}

function Memory() {
  const shares = useSignal<Share[]>([]);
  useEffect(() => {
    const read = () =>
      void readMemory().then(
        (list) => (shares.value = list),
        () => undefined,
      );
    read();
    const timer = setInterval(() => !document.hidden && read(), EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <section class="card" aria-label="Memory">
      <h2>Memory</h2>
      <div class="shares">
        {shares.value.map(({ name, used, limit }) => (
          <div class="share" key={name}>
            <span>{name.replaceAll("_", " ")}</span>
            {limit === null ? (
              <span class="bar none" />
            ) : (
              <meter class="bar" min={0} max={limit} value={used} aria-label={name} />
            )}
            <span class="number">{bytes(used)}</span>
            <span class="number muted">{limit === null ? "" : `of ${bytes(limit)}`}</span>
          </div>
        ))}
      </div>
    </section>
  );
}

function TableList() {
  const transactions = useSignal<Map<string, string>>(new Map());
  useEffect(() => {
    void ask("wal_tables()").then(
      (list) => {
        const behind = (row: number) =>
          list.number(row, "sequencerTxn") - list.number(row, "writerTxn");
        transactions.value = new Map(
          list.map((row) => [
            list.text(row, "name"),
            list.text(row, "suspended") === "true"
              ? "suspended"
              : behind(row) === 0
                ? list.text(row, "sequencerTxn")
                : `${behind(row)} behind`,
          ]),
        );
      },
      () => undefined,
    );
  }, [tables.value]);
  const stored = tables.value.filter((table) => !table.isView);
  const total = (pick: (table: (typeof stored)[number]) => number) =>
    stored.reduce((sum, table) => sum + pick(table), 0);
  return (
    <section class="card" aria-label="Tables">
      <h2>Tables</h2>
      <table class="list">
        <thead>
          <tr>
            <th>name</th>
            <th class="right">rows</th>
            <th class="right">in segments</th>
            <th class="right">bytes a row</th>
            <th>by</th>
            <th>from</th>
            <th>to</th>
            <th class="right">commits</th>
            <th class="right" title="Bytes written for each byte of log">
              write amplification
            </th>
          </tr>
        </thead>
        <tbody>
          {stored.map((table) => (
            <tr key={table.name}>
              <td>
                <button
                  class="link"
                  onClick={() =>
                    runText(
                      `SHOW PARTITIONS FROM ${quoteName(table.name)};`,
                      `${table.name} partitions`,
                    )
                  }
                >
                  {table.name}
                </button>
              </td>
              <td class="right">{count(table.rows)}</td>
              <td class="right">{bytes(table.bytes)}</td>
              <td class="right">
                {table.rows === 0 || table.bytes === 0
                  ? "–"
                  : (table.bytes / table.rows).toFixed(1)}
              </td>
              <td>{table.partitionBy.toLowerCase()}</td>
              <td class="time">{table.minTime.slice(0, 19).replace("T", " ")}</td>
              <td class="time">{table.maxTime.slice(0, 19).replace("T", " ")}</td>
              <td class="right">{transactions.value.get(table.name) ?? table.lastTxn}</td>
              <td class="right">{table.writeAmplification?.toFixed(2) ?? "–"}</td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <td>{plural(stored.length, "table")}</td>
            <td class="right">{count(total(({ rows }) => rows))}</td>
            <td class="right">{bytes(total(({ bytes: size }) => size))}</td>
            <td colSpan={6} />
          </tr>
        </tfoot>
      </table>
    </section>
  );
}
