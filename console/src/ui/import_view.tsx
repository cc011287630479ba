// The view of imports: drop files, say what they become, see what came of them.

import { useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { ask } from "../api/exec";
import type { Imported, ImportFailure, ImportOptions } from "../api/imports";
import { looksLike, withNames } from "../data/csv";
import { bytes, count, duration, plural } from "../data/format";
import { again, change, choose, jobs, remove, start, stop, type ImportJob } from "../state/imports";
import { findTable } from "../state/schema";
import { quoteName } from "../sql/names";
import { runText } from "./actions";
import { Icon } from "./icons";

export function ImportView() {
  const input = useRef<HTMLInputElement>(null);
  return (
    <div class="page">
      <div class="page-head">
        <h1>Import</h1>
        <p class="muted">
          CSV, TSV and other delimited text, also as .gz or .zst. A file is one commit.
        </p>
      </div>
      <button class="drop" onClick={() => input.current!.click()}>
        <Icon name="upload" />
        <span>
          <b>Drop files anywhere on this page</b>, or choose them here
        </span>
      </button>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        aria-label="Files to import"
        onChange={(event) => {
          choose(event.currentTarget.files ?? []);
          event.currentTarget.value = "";
        }}
      />
      {jobs.value.map((job) => (
        <Job key={job.id} job={job} />
      ))}
    </div>
  );
}

function Job({ job }: { job: ImportJob }) {
  const state = job.state.value;
  const outcome = job.outcome.value;
  return (
    <article class="card job" aria-label={job.file.name}>
      <header>
        <b>{job.file.name}</b>
        <span class="muted">{bytes(job.file.size)}</span>
        <span class="grow" />
        <button
          class="tool"
          aria-label={`Remove ${job.file.name}`}
          title="Remove"
          onClick={() => remove(job)}
        >
          <Icon name="close" />
        </button>
      </header>
      {state === "chosen" && <Form job={job} />}
      {(state === "waiting" || state === "sending") && <Sending job={job} />}
      {outcome?.kind === "imported" && <Success job={job} result={outcome.result} />}
      {outcome?.kind === "failed" && <Failed job={job} failure={outcome.failure} />}
    </article>
  );
}

const PARTITIONS = ["NONE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR"];

function Form({ job }: { job: ImportJob }) {
  const options = job.options.value;
  const known = findTable(options.table);
  const [names] = withNames(job.preview.value?.rows ?? [], options.header === "first line");
  const set = (changed: Partial<ImportOptions>) => change(job, changed);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        start(job);
      }}
    >
      <div class="fields">
        <label>
          Table
          <input
            required
            value={options.table}
            onInput={(event) => set({ table: event.currentTarget.value })}
          />
        </label>
        <label>
          Designated timestamp
          {known || names.length === 0 ? (
            <input
              value={known?.timestamp ?? options.timestamp}
              disabled={known !== undefined}
              placeholder="none"
              onInput={(event) => set({ timestamp: event.currentTarget.value })}
            />
          ) : (
            <Select
              value={options.timestamp}
              choices={["", ...names]}
              onChoice={(timestamp) => set({ timestamp })}
            />
          )}
        </label>
        <label>
          Partition by
          <Select
            value={(known?.partitionBy ?? options.partitionBy) || "NONE"}
            choices={PARTITIONS}
            isFixed={known !== undefined}
            onChoice={(partitionBy) => set({ partitionBy })}
          />
        </label>
        <label>
          A value that does not fit
          <select
            value={options.atomicity}
            onChange={(event) =>
              set({ atomicity: event.currentTarget.value as ImportOptions["atomicity"] })
            }
          >
            <option value="skipRow">leaves its row out</option>
            <option value="skipCol">becomes NULL</option>
            <option value="abort">ends the import</option>
          </select>
        </label>
        <label>
          First line
          <select
            value={options.header}
            onChange={(event) =>
              set({ header: event.currentTarget.value as ImportOptions["header"] })
            }
          >
            <option value="detect">detect</option>
            <option value="first line">column names</option>
          </select>
        </label>
        <label>
          If the table exists
          <select
            value={options.mode}
            onChange={(event) => set({ mode: event.currentTarget.value as ImportOptions["mode"] })}
          >
            <option value="append">add the rows</option>
            <option value="overwrite">replace the table</option>
          </select>
        </label>
      </div>
      <PreviewTable job={job} />
      <div class="form-foot">
        <span class="muted">
          {known ? `${known.name} has ${plural(known.rows, "row")}` : "The table will be created"}
        </span>
        <span class="grow" />
        <button
          class={`button ${options.mode === "overwrite" && known ? "stop" : "primary"}`}
          type="submit"
        >
          <Icon name="upload" />
          {options.mode === "overwrite" && known ? "Replace the table" : "Import"}
        </button>
      </div>
    </form>
  );
}

interface SelectProps {
  value: string;
  choices: string[];
  isFixed?: boolean;
  onChoice: (choice: string) => void;
}

function Select({ value, choices, isFixed, onChoice }: SelectProps) {
  return (
    <select
      value={value}
      disabled={isFixed ?? false}
      onChange={(event) => onChoice(event.currentTarget.value)}
    >
      {choices.map((choice) => (
        <option key={choice} value={choice}>
          {choice === "" ? "none" : choice}
        </option>
      ))}
    </select>
  );
}

function PreviewTable({ job }: { job: ImportJob }) {
  const found = job.preview.value;
  if (!found || found.rows.length === 0) return null;
  const [names, rows] = withNames(found.rows, job.options.value.header === "first line");
  const kinds = names.map((_, i) => looksLike(rows.map((row) => row[i] ?? "")));
  return (
    <div class="preview">
      <table>
        <thead>
          <tr>
            {names.map((name, i) => (
              <th key={i} class={kinds[i] === "number" ? "right" : ""}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at}>
              {names.map((_, i) => (
                <td key={i} class={kinds[i] === "number" ? "right" : ""}>
                  {row[i] ? row[i] : <span class="null">NULL</span>}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Sending({ job }: { job: ImportJob }) {
  const sent = job.sent.value;
  const seconds = (performance.now() - job.startedAt) / 1_000;
  const isAll = 1 <= sent;
  const word =
    job.state.value === "waiting"
      ? "waits for the file before it"
      : isAll
        ? "sent; the server commits it"
        : `${bytes(sent * job.file.size)} of ${bytes(job.file.size)}`;
  const speed =
    0.3 < seconds && !isAll && 0 < sent ? `${bytes((sent * job.file.size) / seconds)}/s` : "";
  return (
    <div class="sending">
      <progress value={isAll ? undefined : sent} max={1} aria-label={`Sending ${job.file.name}`} />
      <span>{word}</span>
      <span class="muted">{speed}</span>
      <span class="grow" />
      <button class="button" onClick={() => stop(job)}>
        <Icon name="stop" />
        Cancel
      </button>
    </div>
  );
}

function Success({ job, result }: { job: ImportJob; result: Imported }) {
  const ms = performance.now() - job.startedAt;
  const took = useSignal(ms).peek();
  return (
    <div class="imported">
      <p>
        <b class="good">{plural(result.imported, "row")}</b> into <b>{result.table}</b>
        <span class="muted"> in {duration(took)}</span>
        {0 < result.rejected && (
          <span class="bad"> · {plural(result.rejected, "row")} left out</span>
        )}
      </p>
      {result.warnings.map((warning) => (
        <p key={warning} class="flag">
          {warning}
        </p>
      ))}
      <div class="columns-made">
        {result.columns.map(({ name, type, errors }) => (
          <span key={name} class="made">
            <b>{name}</b> {type.toLowerCase()}
            {0 < errors && <span class="bad"> {plural(errors, "bad value")}</span>}
          </span>
        ))}
      </div>
      <div class="form-foot">
        <button
          class="button"
          onClick={() =>
            runText(`SELECT * FROM ${quoteName(result.table)} LIMIT -1000;`, result.table)
          }
        >
          <Icon name="play" />
          Query {result.table}
        </button>
        {0 < result.rejected + result.columns.reduce((sum, { errors }) => sum + errors, 0) && (
          <Rejects id={result.importId} />
        )}
      </div>
    </div>
  );
}

interface Reject {
  line: string;
  column: string;
  raw: string;
  reason: string;
  action: string;
}

const REJECTS_SHOWN = 100;

/** What was not taken, out of the table that the server keeps of it. */
function Rejects({ id }: { id: string }) {
  const list = useSignal<Reject[] | null>(null);
  const error = useSignal("");
  const sql =
    "SELECT line, column_name, raw, reason, action FROM sys.copy_rejects " +
    `WHERE id = '${id.replaceAll("'", "''")}' LIMIT ${REJECTS_SHOWN}`;
  const read = async () => {
    try {
      const answer = await ask(sql);
      list.value = answer.map((row) => ({
        line: answer.text(row, "line"),
        column: answer.text(row, "column_name"),
        raw: answer.text(row, "raw"),
        reason: answer.text(row, "reason"),
        action: answer.text(row, "action").replaceAll("_", " "),
      }));
    } catch (reason) {
      error.value = reason instanceof Error ? reason.message : String(reason);
    }
  };
  if (list.value === null) {
    return (
      <>
        <button class="button" onClick={() => void read()}>
          Show rejected input
        </button>
        {error.value !== "" && <span class="bad">{error.value}</span>}
      </>
    );
  }
  return (
    <div class="preview rejects">
      <table aria-label="Rejected input">
        <thead>
          <tr>
            <th class="right">line</th>
            <th>column</th>
            <th>text</th>
            <th>reason</th>
            <th>action</th>
          </tr>
        </thead>
        <tbody>
          {list.value.map((reject, i) => (
            <tr key={i}>
              <td class="right">{reject.line === "" ? "" : count(Number(reject.line))}</td>
              <td>{reject.column}</td>
              <td>
                <code>{reject.raw}</code>
              </td>
              <td>{reject.reason}</td>
              <td>{reject.action}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Failed({ job, failure }: { job: ImportJob; failure: ImportFailure }) {
  const at = [
    failure.line && `line ${count(failure.line)}`,
    failure.column && `column ${failure.column}`,
    failure.code && `SQLSTATE ${failure.code}`,
  ];
  return (
    <div class="failure" role="alert">
      <p>{failure.message}</p>
      <p class="muted">
        {at.filter(Boolean).map((text) => (
          <span key={String(text)}>{text}</span>
        ))}{" "}
        <span>Nothing was imported.</span>
      </p>
      <button class="button" onClick={() => again(job)}>
        Change and try again
      </button>
    </div>
  );
}
