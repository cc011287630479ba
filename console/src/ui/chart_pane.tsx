// The chart of an answer, and the choice of its columns.

import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Rows } from "../data/cells";
import { linesOf } from "../data/series";
import { kindOf } from "../data/types";
import { chartOf, setChart, type Result, type Tab } from "../state/tabs";
import { isDark } from "../state/view";
import type { ChartColumns } from "../data/guess";
import { Chart } from "./chart";

/** While rows still come, the chart is made anew when there are so many times as many. */
const GROWTH = 3;

export function ChartPane({ tab, result }: { tab: Tab; result: Result }) {
  const rows = result.rows!;
  // As few drawings of a growing answer as one sees, and the last one of all of it.
  const stage = result.outcome ? -1 : Math.floor(Math.log(rows.length + 1) / Math.log(GROWTH));
  const columns = useMemo(() => chartOf(result), [rows, stage, result.chart]);
  const made = useMemo(() => linesOf(rows, columns), [rows, stage, columns]);
  const host = useRef<HTMLDivElement>(null);
  const chart = useRef<Chart | null>(null);
  useLayoutEffect(() => {
    chart.current = new Chart(host.current!);
    return () => chart.current!.destroy();
  }, []);
  const dark = isDark();
  useLayoutEffect(() => chart.current!.show(made.lines, dark), [made, dark]);
  return (
    <div class="chart-pane">
      <ChartChoice
        rows={rows}
        columns={columns}
        onChange={(changed) => setChart(tab, changed)}
        onReset={() => chart.current!.reset()}
        leftOut={made.leftOut}
      />
      <div class="chart" ref={host} role="img" aria-label={describe(rows, columns)} />
      {columns.time === null && (
        <p class="empty-word">No column has times, so there is no chart over time.</p>
      )}
      {columns.time !== null && columns.values.length === 0 && (
        <p class="empty-word">Choose a column of numbers.</p>
      )}
    </div>
  );
}

function describe(rows: Rows, { time, values, series }: ChartColumns): string {
  const name = (column: number) => rows.columns[column]!.name;
  if (time === null) return "No chart";
  const by = series === null ? "" : ` for each ${name(series)}`;
  return `Chart of ${values.map(name).join(", ")} by ${name(time)}${by}`;
}

interface ChoiceProps {
  rows: Rows;
  columns: ChartColumns;
  onChange: (columns: ChartColumns) => void;
  onReset: () => void;
  leftOut: number;
}

function ChartChoice({ rows, columns, onChange, onReset, leftOut }: ChoiceProps) {
  const of = (...kinds: string[]) =>
    rows.columns.flatMap(({ type }, column) => (kinds.includes(kindOf(type)) ? [column] : []));
  const toggle = (column: number) => {
    const isOn = columns.values.includes(column);
    const values = isOn
      ? columns.values.filter((other) => other !== column)
      : [...columns.values, column];
    onChange({ ...columns, values });
  };
  return (
    <div class="chart-choice">
      <Choice
        label="Time"
        rows={rows}
        from={of("time")}
        value={columns.time}
        onChoice={(time) => onChange({ ...columns, time })}
      />
      <Choice
        label="Series"
        rows={rows}
        from={of("symbol", "text", "boolean")}
        value={columns.series}
        onChoice={(series) => onChange({ ...columns, series })}
      />
      <div class="chips" role="group" aria-label="Values">
        {of("number").map((column) => (
          <button
            key={column}
            class="chip"
            aria-pressed={columns.values.includes(column)}
            onClick={() => toggle(column)}
          >
            {rows.columns[column]!.name}
          </button>
        ))}
      </div>
      {0 < leftOut && <span class="flag">{leftOut} more series are not drawn</span>}
      <span class="grow" />
      <span class="hint">Drag or turn the wheel to zoom</span>
      <button class="button quiet" onClick={onReset}>
        Whole range
      </button>
    </div>
  );
}

interface ColumnChoice {
  label: string;
  rows: Rows;
  from: number[];
  value: number | null;
  onChoice: (column: number | null) => void;
}

function Choice({ label, rows, from, value, onChoice }: ColumnChoice) {
  return (
    <label class="choice">
      {label}
      <select
        value={String(value ?? "")}
        onChange={(event) => {
          const { value: chosen } = event.currentTarget;
          onChoice(chosen === "" ? null : Number(chosen));
        }}
      >
        <option value="">none</option>
        {from.map((column) => (
          <option key={column} value={String(column)}>
            {rows.columns[column]!.name}
          </option>
        ))}
      </select>
    </label>
  );
}
