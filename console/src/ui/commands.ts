// What can be done from the keyboard: the keys of the page, and the entries of the palette.
//
// - CD1. A key of the page is one that no browser keeps for itself; within the editor it means the
//   same as elsewhere.

import { past } from "../state/history";
import { refreshSchema, tables } from "../state/schema";
import { shown, tabs } from "../state/tabs";
import { nextTheme, overlay, view, VIEWS, type View } from "../state/view";
import { quoteName } from "../sql/names";
import {
  cancelCurrent,
  closeShown,
  focusEditor,
  focusGrid,
  newTab,
  runCurrent,
  runText,
  showTabAt,
} from "./actions";
import { exportAll, exportLoaded } from "./export";
import { copyTab } from "./query_view";

export interface Command {
  title: string;
  /** As it is written in the list of keys; "" for none. */
  key: string;
  run: () => void;
}

const VIEW_NAMES: Record<View, string> = {
  query: "Query",
  import: "Import",
  activity: "Activity",
  server: "Server",
};

export function viewName(name: View): string {
  return VIEW_NAMES[name];
}

const showAs = (form: "grid" | "chart") => () => {
  view.value = "query";
  shown.value.shows.value = form;
};

export const COMMANDS: Command[] = [
  {
    title: "Run the statement at the cursor, or the selection",
    key: "Ctrl+Enter",
    run: runCurrent,
  },
  { title: "Cancel the statement of this tab", key: "Ctrl+.", run: cancelCurrent },
  {
    title: "Find a command, a table or a statement",
    key: "Ctrl+K",
    run: () => (overlay.value = "palette"),
  },
  { title: "New tab", key: "Alt+T", run: () => newTab() },
  { title: "Close the tab", key: "Alt+W", run: closeShown },
  { title: "Go to the editor", key: "Alt+E", run: focusEditor },
  { title: "Go to the rows", key: "Alt+R", run: focusGrid },
  { title: "Show the answer as a grid", key: "Alt+G", run: showAs("grid") },
  { title: "Show the answer as a chart", key: "Alt+C", run: showAs("chart") },
  { title: "Copy the tab", key: "", run: copyTab },
  {
    title: "Export the rows that are shown as CSV",
    key: "",
    run: () => shown.value.result.value && void exportLoaded(shown.value.result.value),
  },
  {
    title: "Export all rows as CSV",
    key: "",
    run: () => shown.value.result.value && exportAll(shown.value.result.value.sql),
  },
  { title: "Reload the tables", key: "", run: () => void refreshSchema() },
  { title: "Colours: light, dark, or as the system", key: "Alt+O", run: nextTheme },
  { title: "List the keys", key: "F1", run: () => (overlay.value = "keys") },
  ...VIEWS.map((name, i) => ({
    title: `View: ${VIEW_NAMES[name]}`,
    key: `Ctrl+Alt+${i + 1}`,
    run: () => (view.value = name),
  })),
];

/** Keys of the grid and the editor, which have no command. */
export const MORE_KEYS: [string, string][] = [
  ["Alt+1 … Alt+9", "Show a tab"],
  ["Ctrl+Space", "Open the suggestions"],
  ["Ctrl+/", "Comment out the line"],
  ["Ctrl+F", "Search in the editor"],
  ["Arrows, Page, Home, End", "Move in the rows; with Shift select, with Ctrl to the end"],
  ["Ctrl+C, Ctrl+Shift+C", "Copy cells; with the names of the columns"],
  ["Ctrl+A", "Select all cells"],
];

/** The key of an event as `COMMANDS` writes it. */
export function keyName(event: KeyboardEvent): string {
  const named =
    event.altKey && /^Key[A-Z]$|^Digit\d$/.test(event.code) ? event.code.slice(-1) : event.key;
  const key = named.length === 1 ? named.toUpperCase() : named;
  const held = [
    event.ctrlKey || event.metaKey ? "Ctrl+" : "",
    event.altKey ? "Alt+" : "",
    event.shiftKey ? "Shift+" : "",
  ];
  return held.join("") + key;
}

export function startKeys(): void {
  window.addEventListener("keydown", (event) => {
    if (event.defaultPrevented) return;
    const name = keyName(event);
    const tab = /^Alt\+([1-9])$/.exec(name);
    const command = COMMANDS.find(({ key }) => key === name);
    if (tab) showTabAt(Number(tab[1]) - 1);
    else if (command) command.run();
    else return;
    event.preventDefault();
  });
}

export interface Entry {
  title: string;
  kind: string;
  key: string;
  run: () => void;
}

/** All entries of the palette. */
export function entries(): Entry[] {
  return [
    ...COMMANDS.filter(({ key }) => key !== "Ctrl+K").map((command) => ({
      ...command,
      kind: "command",
    })),
    ...tabs.value.map((tab, i) => ({
      title: tab.title.value,
      kind: "tab",
      key: i < 9 ? `Alt+${i + 1}` : "",
      run: () => showTabAt(i),
    })),
    ...tables.value.map(({ name }) => ({
      title: name,
      kind: "table",
      key: "",
      run: () => runText(`SELECT * FROM ${quoteName(name)} LIMIT -1000;`, name),
    })),
    ...past.value.map(({ sql }) => ({
      title: sql.replace(/\s+/g, " "),
      kind: "history",
      key: "",
      run: () => void newTab(sql),
    })),
  ];
}

/** How well a title fits what was typed; 0 for not at all. All words must be there. */
export function score(title: string, typed: string): number {
  const text = title.toLowerCase();
  let sum = 1;
  for (const word of typed
    .toLowerCase()
    .split(/\s+/)
    .filter((part) => part !== "")) {
    const at = text.indexOf(word);
    if (at < 0) return 0;
    sum += (at === 0 ? 4 : /\W/.test(text[at - 1]!) ? 2 : 0) + word.length / text.length;
  }
  return sum;
}
