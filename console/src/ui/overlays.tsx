// What lies above the page: the palette, and the list of keys.

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { overlay } from "../state/view";
import { closeOverlay } from "./actions";
import { COMMANDS, entries, MORE_KEYS, score, type Entry } from "./commands";
import { Icon } from "./icons";

export function Overlays() {
  if (overlay.value === "palette")
    return (
      <Sheet label="Palette">
        <Palette />
      </Sheet>
    );
  if (overlay.value === "keys")
    return (
      <Sheet label="Keys">
        <Keys />
      </Sheet>
    );
  return null;
}

function Sheet({ label, children }: { label: string; children: preact.ComponentChildren }) {
  const sheet = useRef<HTMLDialogElement>(null);
  // Before the page is drawn: keys that follow at once are meant for it.
  useLayoutEffect(() => {
    const dialog = sheet.current!;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  return (
    <dialog
      ref={sheet}
      class="sheet"
      aria-label={label}
      onCancel={(event) => {
        event.preventDefault();
        closeOverlay();
      }}
      onPointerDown={(event) => event.target === sheet.current && closeOverlay()}
    >
      <div class="sheet-body">{children}</div>
    </dialog>
  );
}

/** More than one looks through. */
const ENTRIES_MAX = 60;

function Palette() {
  const typed = useSignal("");
  const chosen = useSignal(0);
  const found = entries()
    .map((entry) => ({ entry, fit: score(entry.title, typed.value) }))
    .filter(({ fit }) => 0 < fit)
    .sort((a, b) => b.fit - a.fit)
    .slice(0, ENTRIES_MAX)
    .map(({ entry }) => entry);
  const run = (entry: Entry | undefined) => {
    if (!entry) return;
    overlay.value = null;
    entry.run();
  };
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) chosen.value = (chosen.value + step + found.length) % Math.max(1, found.length);
    else if (event.key === "Enter") run(found[chosen.value]);
    else return;
    event.preventDefault();
  };
  return (
    <>
      <label class="palette-field">
        <Icon name="search" />
        <input
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-label="Find"
          aria-activedescendant={`entry-${chosen.value}`}
          placeholder="A command, a table, a statement"
          value={typed.value}
          onKeyDown={onKey}
          onInput={(event) => {
            typed.value = event.currentTarget.value;
            chosen.value = 0;
          }}
        />
      </label>
      <div class="palette-list" id="palette-list" role="listbox">
        {found.map((entry, i) => (
          <PaletteEntry
            key={`${entry.kind} ${entry.title}`}
            entry={entry}
            place={i}
            isChosen={i === chosen.value}
            onRun={() => run(entry)}
          />
        ))}
        {found.length === 0 && <p class="hint">No match.</p>}
      </div>
    </>
  );
}

interface EntryProps {
  entry: Entry;
  place: number;
  isChosen: boolean;
  onRun: () => void;
}

function PaletteEntry({ entry, place, isChosen, onRun }: EntryProps) {
  const line = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (isChosen) line.current!.scrollIntoView({ block: "nearest" });
  }, [isChosen]);
  return (
    <button
      ref={line}
      role="option"
      id={`entry-${place}`}
      aria-selected={isChosen}
      tabIndex={-1}
      onClick={onRun}
    >
      <span class="entry-title">{entry.title}</span>
      {entry.kind !== "command" && <span class="muted">{entry.kind}</span>}
      {entry.key !== "" && <kbd>{entry.key}</kbd>}
    </button>
  );
}

function Keys() {
  const lines = [
    ...COMMANDS.filter(({ key }) => key !== "").map(({ key, title }) => [key, title] as const),
    ...MORE_KEYS,
  ];
  return (
    <>
      <h1 class="sheet-title">Keys</h1>
      <dl class="keys">
        {lines.map(([key, title]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{title}</dd>
          </div>
        ))}
      </dl>
      <p class="hint">
        On a Mac, Ctrl is also Command and Alt is Option.{" "}
        <a href="/licenses.txt" target="_blank" rel="noreferrer">
          Licences of the libraries in the console
        </a>
      </p>
    </>
  );
}
