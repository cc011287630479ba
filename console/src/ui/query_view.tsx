// The view of queries: tabs, editor, and the answer below.

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { catalog } from "../state/schema";
import { openTab, saveTabs, show, shown, tabs, type Tab } from "../state/tabs";
import { editorPart, rowsMax, sidebarWidth } from "../state/view";
import {
  cancelCurrent,
  close,
  closeShown,
  newTab,
  runCurrent,
  setEditor,
  showFault,
} from "./actions";
import { AnswerPane } from "./answer_pane";
import { Editor } from "./editor";
import { follow } from "./grid";
import { HistoryList } from "./history_list";
import { Icon } from "./icons";
import { SchemaTree } from "./schema_tree";

/** How long after the last key texts are kept. */
const SAVE_MS = 400;

export function QueryView() {
  const side = useSignal<"tables" | "history">("tables");
  return (
    <div class="query-view">
      <aside class="sidebar" style={{ width: `${sidebarWidth.value}px` }}>
        <div class="side-tabs" role="tablist" aria-label="Sidebar">
          {(["tables", "history"] as const).map((name) => (
            <button
              role="tab"
              key={name}
              aria-selected={side.value === name}
              onClick={() => (side.value = name)}
            >
              {name === "tables" ? "Tables" : "History"}
            </button>
          ))}
        </div>
        {side.value === "tables" ? <SchemaTree /> : <HistoryList />}
      </aside>
      <Divider
        label="Width of the sidebar"
        kind="column"
        onMove={(event) => {
          sidebarWidth.value = Math.max(160, Math.min(600, event.clientX));
        }}
        onKey={(step) =>
          (sidebarWidth.value = Math.max(160, Math.min(600, sidebarWidth.value + 16 * step)))
        }
      />
      <div class="work">
        <TabStrip />
        <WorkSpace />
      </div>
    </div>
  );
}

interface DividerProps {
  label: string;
  kind: "column" | "row";
  onMove: (event: PointerEvent) => void;
  onKey: (step: number) => void;
}

function Divider({ label, kind, onMove, onKey }: DividerProps) {
  return (
    <div
      class={`divider ${kind}`}
      role="separator"
      tabIndex={0}
      aria-label={label}
      aria-orientation={kind === "column" ? "vertical" : "horizontal"}
      onPointerDown={(event) => {
        event.preventDefault();
        follow(event, onMove);
      }}
      onKeyDown={(event) => {
        if (event.key === "ArrowLeft" || event.key === "ArrowUp") onKey(-1);
        if (event.key === "ArrowRight" || event.key === "ArrowDown") onKey(1);
      }}
    />
  );
}

function TabStrip() {
  return (
    <div class="tabs" role="tablist" aria-label="Queries">
      {tabs.value.map((tab) => (
        <TabHead key={tab.id} tab={tab} />
      ))}
      <button class="tool" title="New tab (Alt+T)" aria-label="New tab" onClick={() => newTab()}>
        <Icon name="plus" />
      </button>
    </div>
  );
}

function TabHead({ tab }: { tab: Tab }) {
  const isShown = shown.value === tab;
  const rename = () => {
    const title = prompt("Name of the tab", tab.title.value)?.trim();
    if (title) tab.title.value = title.slice(0, 60);
    saveTabs();
  };
  return (
    <div class={`tab ${isShown ? "shown" : ""}`}>
      <button
        role="tab"
        aria-selected={isShown}
        onClick={() => show(tab)}
        onDblClick={rename}
        title="Double click to rename"
      >
        {tab.running.value && <span class="spinner" aria-label="running" />}
        {tab.title.value}
      </button>
      <button
        class="tab-close"
        aria-label={`Close ${tab.title.value}`}
        onClick={() => (isShown ? closeShown() : close(tab))}
      >
        <Icon name="close" />
      </button>
    </div>
  );
}

function WorkSpace() {
  const space = useRef<HTMLDivElement>(null);
  const move = (event: PointerEvent) => {
    const box = space.current!.getBoundingClientRect();
    setPart((event.clientY - box.top) / box.height);
  };
  return (
    <div class="workspace" ref={space}>
      <div class="editor-pane" style={{ height: `${editorPart.value * 100}%` }}>
        <EditorHost />
        <RunBar />
      </div>
      <Divider
        label="Height of the editor"
        kind="row"
        onMove={move}
        onKey={(step) => setPart(editorPart.value + 0.04 * step)}
      />
      <AnswerPane tab={shown.value} />
    </div>
  );
}

function setPart(part: number): void {
  editorPart.value = Math.max(0.12, Math.min(0.85, part));
}

function EditorHost() {
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | null>(null);
  useLayoutEffect(() => {
    let timer = 0;
    const one = new Editor(host.current!, {
      onChange: (text) => {
        shown.value.text = text;
        clearTimeout(timer);
        timer = window.setTimeout(saveTabs, SAVE_MS);
      },
      onRun: runCurrent,
      catalog,
    });
    editor.current = one;
    setEditor(one);
    window.addEventListener("pagehide", saveTabs);
    return () => {
      window.removeEventListener("pagehide", saveTabs);
      setEditor(null);
      one.destroy();
    };
  }, []);
  const tab = shown.value;
  const outcome = tab.result.value?.outcome;
  useLayoutEffect(() => editor.current!.show(tab.id, tab.text), [tab]);
  useEffect(showFault, [outcome, tab]);
  useEffect(() => editor.current!.focus(), [tab]);
  return <div class="editor" ref={host} />;
}

const LIMITS = [1_000, 10_000, 100_000, 1_000_000, 5_000_000];

function RunBar() {
  const isRunning = shown.value.running.value !== null;
  return (
    <div class="run-bar">
      {isRunning ? (
        <button class="button stop" onClick={cancelCurrent}>
          <Icon name="stop" />
          Cancel<kbd>Ctrl .</kbd>
        </button>
      ) : (
        <button class="button primary" onClick={runCurrent}>
          <Icon name="play" />
          Run<kbd>Ctrl Enter</kbd>
        </button>
      )}
      <label class="choice">
        Rows
        <select
          value={String(rowsMax.value)}
          onChange={(event) => (rowsMax.value = Number(event.currentTarget.value))}
        >
          {LIMITS.map((rows) => (
            <option key={rows} value={String(rows)}>
              {rows.toLocaleString("en-US")}
            </option>
          ))}
        </select>
      </label>
      <span class="grow" />
      <span class="hint" id="editor-help">
        Runs the selection, or the statement with the bar at its left
      </span>
    </div>
  );
}

/** For the palette: a copy of the shown tab. */
export function copyTab(): void {
  openTab(shown.value.text, `${shown.value.title.value} copy`);
}
