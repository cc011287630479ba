// Which part of the console is seen, how it looks, and how its space is divided.

import { effect, signal } from "@preact/signals";
import { load, save } from "./stored";

export const VIEWS = ["query", "import", "activity", "server"] as const;
export type View = (typeof VIEWS)[number];

export const THEMES = ["auto", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const oneOf =
  <T extends string>(choices: readonly T[]) =>
  (value: unknown): T | null =>
    choices.find((choice) => choice === value) ?? null;

const numberBetween = (low: number, high: number) => (value: unknown) =>
  typeof value === "number" && low <= value && value <= high ? value : null;

export const view = signal<View>(viewOf(location.hash));
export const theme = signal<Theme>(load("theme", oneOf(THEMES), "auto"));
export const sidebarWidth = signal(load("sidebar", numberBetween(0, 600), 264));
/** Of the space below the editor's tabs, 0 to 1. */
export const editorPart = signal(load("editor", numberBetween(0.1, 0.9), 0.36));
export const rowsMax = signal(load("rows", numberBetween(1, 5_000_000), 1_000_000));

/** What lies above all: at most one. */
export const overlay = signal<"palette" | "keys" | null>(null);

/** A word at the foot of the page, for a moment. */
export const notice = signal("");
let noticeTimer = 0;

export function say(text: string): void {
  notice.value = text;
  clearTimeout(noticeTimer);
  noticeTimer = window.setTimeout(() => (notice.value = ""), 4_000);
}

function viewOf(hash: string): View {
  return VIEWS.find((name) => `#${name}` === hash) ?? "query";
}

/** Colours follow the machine's own choice, until one is made here. */
export function isDark(): boolean {
  if (theme.value !== "auto") return theme.value === "dark";
  return darkMachine.value;
}

const machine = matchMedia("(prefers-color-scheme: dark)");
const darkMachine = signal(machine.matches);
machine.onchange = () => (darkMachine.value = machine.matches);

export function nextTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]!;
  say(`Colours: ${theme.value === "auto" ? "as the system" : theme.value}`);
}

export function startView(): void {
  effect(() => {
    document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  });
  effect(() => save("theme", theme.value));
  effect(() => save("sidebar", sidebarWidth.value));
  effect(() => save("editor", editorPart.value));
  effect(() => save("rows", rowsMax.value));
  effect(() => {
    if (viewOf(location.hash) !== view.value) history.replaceState(null, "", `#${view.value}`);
  });
  window.addEventListener("hashchange", () => (view.value = viewOf(location.hash)));
}
