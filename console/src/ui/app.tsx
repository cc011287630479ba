// The page: its head with the four views and a glance at the server, and the view that is seen.

import { useEffect } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { bytes, short } from "../data/format";
import { choose } from "../state/imports";
import { samples, state, version } from "../state/server";
import { nextTheme, notice, overlay, theme, view, VIEWS } from "../state/view";
import { ActivityView } from "./activity_view";
import { viewName } from "./commands";
import { Icon } from "./icons";
import { ImportView } from "./import_view";
import { Overlays } from "./overlays";
import { QueryView } from "./query_view";
import { ServerView } from "./server_view";
import { Spark } from "./spark";

export function App() {
  return (
    <>
      <Head />
      <main>
        {/* Queries stay where they are: their editor and their scrolled rows are not made anew. */}
        <div class="view" hidden={view.value !== "query"}>
          <QueryView />
        </div>
        {view.value === "import" && <ImportView />}
        {view.value === "activity" && <ActivityView />}
        {view.value === "server" && <ServerView />}
      </main>
      <Overlays />
      <DropZone />
      <div class={`notice ${notice.value === "" ? "" : "shown"}`} role="status" aria-live="polite">
        {notice.value}
      </div>
    </>
  );
}

function Head() {
  const colours = theme.value === "auto" ? "as the system" : theme.value;
  return (
    <header class="head">
      <span class="brand">
        <img src="/favicon.svg" alt="" width="18" height="18" />
        Tidegate
      </span>
      <nav aria-label="Views">
        {VIEWS.map((name) => (
          <button
            key={name}
            aria-current={view.value === name ? "page" : undefined}
            onClick={() => (view.value = name)}
          >
            {viewName(name)}
          </button>
        ))}
      </nav>
      <button
        class="find"
        onClick={() => (overlay.value = "palette")}
        aria-label="Find a command, a table or a statement"
      >
        <Icon name="search" />
        <span>Find</span>
        <kbd>Ctrl K</kbd>
      </button>
      <span class="grow" />
      <Glance />
      <button
        class="tool"
        title="Keys (F1)"
        aria-label="Keys"
        onClick={() => (overlay.value = "keys")}
      >
        <Icon name="keys" />
      </button>
      <button
        class="tool"
        title={`Colours: ${colours} (Alt+O)`}
        aria-label={`Colours: ${colours}`}
        onClick={nextTheme}
      >
        <Icon name={theme.value === "auto" ? "auto" : theme.value === "dark" ? "moon" : "sun"} />
      </button>
    </header>
  );
}

/** Ingestion and memory in a line, always in sight. */
function Glance() {
  const last = samples.value.at(-1);
  const rows = last && !Number.isNaN(last.rowsPerSecond) ? last.rowsPerSecond : 0;
  return (
    <button
      class={`glance ${state.value}`}
      onClick={() => (view.value = "server")}
      aria-label="State of the server"
    >
      <span
        class="lamp"
        title={
          state.value === "up" ? `Tidegate ${version.value} answers` : "The server does not answer"
        }
      />
      {state.value === "down" ? (
        <b>no answer from the server</b>
      ) : (
        <>
          <Spark points={samples.value.map((sample) => sample.rowsPerSecond)} />
          <span>
            <b>{short(rows)}</b> rows/s
          </span>
          <span>
            <b>{last?.running ?? 0}</b> running
          </span>
          <span>
            <b>{bytes(last?.memory ?? 0)}</b>
          </span>
        </>
      )}
    </button>
  );
}

/** Files may be dropped anywhere. */
function DropZone() {
  const isOver = useSignal(false);
  useEffect(() => {
    const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
    const over = (event: DragEvent) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      isOver.value = true;
    };
    const leave = (event: DragEvent) => {
      if (event.relatedTarget === null) isOver.value = false;
    };
    const drop = (event: DragEvent) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      isOver.value = false;
      choose(event.dataTransfer!.files);
    };
    window.addEventListener("dragover", over);
    window.addEventListener("dragleave", leave);
    window.addEventListener("drop", drop);
    return () => {
      window.removeEventListener("dragover", over);
      window.removeEventListener("dragleave", leave);
      window.removeEventListener("drop", drop);
    };
  }, []);
  return isOver.value ? (
    <div class="drop-zone">
      <p>Drop the files to import them</p>
    </div>
  ) : null;
}
