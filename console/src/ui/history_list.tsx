// Statements that were run: a click opens one in a tab of its own.

import { useSignal } from "@preact/signals";
import { ago, duration } from "../data/format";
import { forgetAll, past } from "../state/history";
import { newTab } from "./actions";
import { Icon } from "./icons";
import { SearchField } from "./search_field";

export function HistoryList() {
  const filter = useSignal("");
  const wanted = filter.value.trim().toLowerCase();
  const shown = past.value.filter(({ sql }) => sql.toLowerCase().includes(wanted));
  const now = Date.now();
  return (
    <section class="side" aria-label="History">
      <div class="side-tools">
        <SearchField filter={filter} what="Statements" />
        <button
          class="tool"
          title="Clear the history"
          aria-label="Clear the history"
          onClick={() => {
            if (confirm("Remove all statements from the history of this browser?")) forgetAll();
          }}
        >
          <Icon name="close" />
        </button>
      </div>
      <ol class="past">
        {shown.map((one) => (
          <li key={one.sql}>
            <button onClick={() => newTab(one.sql)} title={one.sql}>
              <code>{one.sql}</code>
              <span class={one.isError ? "bad" : "muted"}>{one.result}</span>
              <span class="muted when">
                {duration(one.ms)} · {ago(one.at, now)}
              </span>
            </button>
          </li>
        ))}
      </ol>
      {shown.length === 0 && (
        <p class="hint">{wanted === "" ? "No statement has been run here yet." : "No match."}</p>
      )}
    </section>
  );
}
