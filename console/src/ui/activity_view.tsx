// The view of statements that work, each with a button that ends it.

import { useEffect } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { ask, isOwn, withoutMark } from "../api/exec";
import { bytes, count, duration } from "../data/format";
import { say } from "../state/view";
import { Icon } from "./icons";

interface Statement {
  id: string;
  state: string;
  sql: string;
  protocol: string;
  peer: string;
  user: string;
  startedAt: number;
  rows: number;
  memory: number;
  spill: number;
}

const EVERY_MS = 1_000;

async function readStatements(): Promise<Statement[]> {
  const list = await ask("query_activity()");
  const all = list.map((row): Statement => ({
    id: list.text(row, "query_id"),
    state: list.text(row, "state"),
    sql: list.text(row, "query"),
    protocol: list.text(row, "protocol"),
    peer: list.text(row, "peer"),
    user: list.text(row, "username"),
    startedAt: Date.parse(list.text(row, "query_start")),
    rows: list.number(row, "rows_out"),
    memory: list.number(row, "memory_bytes"),
    spill: list.number(row, "spill_bytes"),
  }));
  // Of the statements of other users, only administrators see more than the name.
  return all.filter(({ state, sql }) => state !== "" && !isOwn(sql));
}

export function ActivityView() {
  const list = useSignal<Statement[] | null>(null);
  const error = useSignal("");
  const read = async () => {
    if (document.hidden) return;
    try {
      list.value = await readStatements();
      error.value = "";
    } catch (reason) {
      error.value = reason instanceof Error ? reason.message : String(reason);
    }
  };
  useEffect(() => {
    void read();
    const timer = setInterval(() => void read(), EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <div class="page">
      <div class="page-head">
        <h1>Activity</h1>
        <p class="muted">
          Running statements, as in query_activity(), read every second. Administrators see those of
          all users, others their own.
        </p>
      </div>
      {error.value !== "" && (
        <div class="failure" role="alert">
          <p>{error.value}</p>
        </div>
      )}
      {list.value?.length === 0 && <p class="hint quiet-page">No statement is running.</p>}
      <div class="statements">
        {list.value?.map((one) => (
          <StatementCard key={one.id} one={one} onEnd={() => void read()} />
        ))}
      </div>
    </div>
  );
}

function StatementCard({ one, onEnd }: { one: Statement; onEnd: () => void }) {
  const isEnding = useSignal(false);
  const cancel = async () => {
    isEnding.value = true;
    try {
      await ask(`CANCEL QUERY ${one.id}`);
      say("The statement was cancelled");
    } catch (reason) {
      say(reason instanceof Error ? reason.message : String(reason));
    }
    onEnd();
  };
  return (
    <article class="card statement" aria-label={`Statement ${one.id}`}>
      <pre>{withoutMark(one.sql)}</pre>
      <div class="facts">
        <span class={`state ${one.state}`}>{one.state}</span>
        <span>{duration(Math.max(0, Date.now() - one.startedAt))}</span>
        <span>{count(one.rows)} rows</span>
        <span>{bytes(one.memory)}</span>
        {0 < one.spill && <span>{bytes(one.spill)} spilled</span>}
        <span class="muted">
          {one.protocol} {one.peer} {one.user}
        </span>
        <span class="grow" />
        <button class="button stop" disabled={isEnding.value} onClick={() => void cancel()}>
          <Icon name="stop" />
          Cancel
        </button>
      </div>
    </article>
  );
}
