// What buttons, keys and the palette do alike. The editor and the grid register themselves here.

import { failureOf, openTab, run, shown, tabs, closeTab, show, type Tab } from "../state/tabs";
import { notice, overlay, say, view } from "../state/view";
import { offsetOf, wordAt } from "../sql/position";
import type { Editor } from "./editor";
import type { Grid } from "./grid";

let editor: Editor | null = null;
let grid: Grid | null = null;

export function setEditor(one: Editor | null): void {
  editor = one;
}

export function setGrid(one: Grid | null): void {
  grid = one;
}

export function focusEditor(): void {
  view.value = "query";
  requestAnimationFrame(() => editor?.focus());
}

export function focusGrid(): void {
  grid?.focus();
}

/** Runs what is selected, or the statement at the cursor. */
export function runCurrent(): void {
  const span = editor?.runnable() ?? null;
  if (span === null) {
    say("There is no statement at the cursor");
    return;
  }
  editor?.showFault(null);
  notice.value = "";
  run(shown.value, span);
}

export function cancelCurrent(): void {
  shown.value.running.value?.cancel();
}

export function insertText(text: string): void {
  view.value = "query";
  editor?.insert(text);
}

export function newTab(text = "", title?: string): Tab | null {
  const tab = openTab(text, title);
  if (tab === null) say("No more tabs can be opened: close one first");
  else focusEditor();
  return tab;
}

/** Opens a tab with a statement, and runs it. */
export function runText(sql: string, title?: string): void {
  view.value = "query";
  const same = tabs.value.find((tab) => tab.title.value === title && tab.text === sql);
  if (same) show(same);
  const tab = same ?? newTab(sql, title);
  if (tab) run(tab, { from: 0, to: sql.replace(/;\s*$/, "").length });
}

export function close(tab: Tab): void {
  editor?.forget(tab.id);
  closeTab(tab);
}

export function closeShown(): void {
  close(shown.value);
  focusEditor();
}

export function showTabAt(place: number): void {
  const tab = tabs.value[place];
  if (!tab) return;
  view.value = "query";
  show(tab);
}

/** Puts the error of the shown answer to its place in the editor. */
export function showFault(): void {
  const result = shown.value.result.value;
  const failure = failureOf(result?.outcome ?? null);
  if (!result || failure?.position === undefined) return;
  // The text may have changed since: then the place means nothing.
  if (shown.value.text.slice(result.span.from, result.span.to) !== result.sql) return;
  const word = wordAt(result.sql, offsetOf(result.sql, failure.position));
  const [from, to] = [result.span.from + word.from, result.span.from + word.to];
  editor?.showFault({ from, to, message: failure.message });
}

export function goToFault(): void {
  const result = shown.value.result.value;
  const failure = failureOf(result?.outcome ?? null);
  if (!result || failure?.position === undefined) return;
  editor?.goTo(result.span.from + offsetOf(result.sql, failure.position));
}

export function closeOverlay(): void {
  overlay.value = null;
  if (view.value === "query") focusEditor();
}
