// What came of a statement: rows as a grid or a chart, a word, or an error.

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { bytes, count, duration } from "../data/format";
import { placeOf } from "../sql/position";
import { failureOf, resultText, summary, type Result, type Tab } from "../state/tabs";
import { say } from "../state/view";
import { goToFault, setGrid } from "./actions";
import { ChartPane } from "./chart_pane";
import { exportAll, exportLoaded } from "./export";
import { Grid } from "./grid";
import { Icon } from "./icons";
import type { Place } from "./selection";

export function AnswerPane({ tab }: { tab: Tab }) {
  const result = tab.result.value;
  const shows = tab.shows.value;
  const current = useSignal<Place | null>(null);
  const failure = failureOf(result?.outcome ?? null);
  const isRunning = tab.running.value !== null;
  return (
    <section class="answer" aria-label="Answer" aria-busy={isRunning}>
      <div class="answer-bar">
        <div class="switch" role="tablist" aria-label="Form of the answer">
          <button
            role="tab"
            aria-selected={shows === "grid"}
            title="Grid (Alt+G)"
            onClick={() => (tab.shows.value = "grid")}
          >
            <Icon name="table" />
            Grid
          </button>
          <button
            role="tab"
            aria-selected={shows === "chart"}
            title="Chart (Alt+C)"
            onClick={() => (tab.shows.value = "chart")}
          >
            <Icon name="chart" />
            Chart
          </button>
        </div>
        <Status result={result} isRunning={isRunning} />
        <span class="grow" />
        {result?.rows && <ExportMenu result={result} />}
      </div>
      {isRunning && <div class="progress" role="progressbar" aria-label="The statement runs" />}
      {failure && <FailureBox result={result!} />}
      <div class="answer-body">
        {result?.rows && shows === "chart" ? (
          <ChartPane tab={tab} result={result} />
        ) : (
          <GridHost result={result} onCurrent={(place) => (current.value = place)} />
        )}
        <EmptyWord tab={tab} />
      </div>
      <CurrentCell result={result} place={current.value} />
    </section>
  );
}

function Status({ result, isRunning }: { result: Result | null; isRunning: boolean }) {
  if (result === null) return null;
  const timings = result.outcome?.kind === "rows" ? result.outcome : null;
  const [planned, answered] = [timings?.compilerNs ?? 0, timings?.executeNs ?? 0];
  const parts = timings
    ? `planned in ${duration(planned / 1e6)}, answered in ${duration(answered / 1e6)}`
    : "";
  return (
    <div class="status" role="status">
      {failureOf(result.outcome) === null && <span title={parts}>{summary(result)}</span>}
      {isRunning && <Stopwatch since={result.startedAt} />}
      {result.cut === "rows" && (
        <span class="flag" title="Increase Rows, or export all rows">
          there are more rows
        </span>
      )}
      {result.cut === "bytes" && <span class="flag">cut: the answer has more than 1 GiB</span>}
      {result.rows && 1 << 20 < result.rows.bytes && (
        <span class="muted">{bytes(result.rows.bytes)}</span>
      )}
    </div>
  );
}

function Stopwatch({ since }: { since: number }) {
  const now = useSignal(performance.now());
  useEffect(() => {
    const timer = setInterval(() => (now.value = performance.now()), 100);
    return () => clearInterval(timer);
  }, []);
  return <span class="muted">{duration(Math.max(0, now.value - since))}</span>;
}

function ExportMenu({ result }: { result: Result }) {
  return (
    <div class="exports">
      <button
        class="button quiet"
        title="The rows that are shown here, as CSV"
        onClick={() => void exportLoaded(result)}
      >
        <Icon name="download" />
        Shown rows
      </button>
      <button
        class="button quiet"
        title="All rows of the result, from the server, as CSV"
        onClick={() => exportAll(result.sql)}
      >
        <Icon name="download" />
        All as CSV
      </button>
    </div>
  );
}

function FailureBox({ result }: { result: Result }) {
  const { message, position, code, requestId } = failureOf(result.outcome)!;
  const line = position === undefined ? null : placeOf(result.before, result.sql, position);
  return (
    <div class="failure" role="alert">
      <p>{message}</p>
      <p class="muted">
        {line && (
          <button class="link" onClick={goToFault}>
            line {line.line}, column {line.column}
          </button>
        )}
        {code && <span>SQLSTATE {code}</span>}
        {requestId && <span>request {requestId}</span>}
        {result.rows && 0 < result.rows.length && (
          <span>{count(result.rows.length)} rows arrived before the error</span>
        )}
      </p>
    </div>
  );
}

function GridHost({
  result,
  onCurrent,
}: {
  result: Result | null;
  onCurrent: (place: Place | null) => void;
}) {
  const host = useRef<HTMLDivElement>(null);
  const grid = useRef<Grid | null>(null);
  useLayoutEffect(() => {
    grid.current = new Grid(host.current!, { onCurrent, say });
    setGrid(grid.current);
    return () => {
      setGrid(null);
      grid.current!.destroy();
    };
  }, []);
  useLayoutEffect(
    () => grid.current!.show(result?.rows ?? null, result?.timestamp ?? -1),
    [result?.rows, result?.version],
  );
  return <div class="grid-host" ref={host} />;
}

function EmptyWord({ tab }: { tab: Tab }) {
  const result = tab.result.value;
  if (tab.dropped.value)
    return <Word text="These rows were dropped to free memory. Run the statement again." />;
  if (result === null) return <Word text="Ctrl+Enter runs the statement at the cursor." />;
  if (result.outcome?.kind === "done") return <Word text={resultText(result.outcome)} />;
  if (result.rows?.length === 0 && result.outcome?.kind === "rows" && !result.outcome.failure) {
    return <Word text="No rows." />;
  }
  return null;
}

function Word({ text }: { text: string }) {
  return <p class="empty-word">{text}</p>;
}

function CurrentCell({ result, place }: { result: Result | null; place: Place | null }) {
  const rows = result?.rows;
  if (!rows || !place || rows.length <= place.row || !rows.columns[place.column]) return null;
  const { name, type } = rows.columns[place.column]!;
  const text = rows.cell(place.row, place.column);
  return (
    <div class="current-cell">
      <span class="muted">row {count(place.row + 1)}</span>
      <b>{name}</b>
      <span class="muted">{type.toLowerCase()}</span>
      <code class={text === null ? "null" : ""}>{text ?? "NULL"}</code>
    </div>
  );
}
