// The field above a list that keeps of it what has a text.

import type { Signal } from "@preact/signals";
import { Icon } from "./icons";

export function SearchField({ filter, what }: { filter: Signal<string>; what: string }) {
  return (
    <label class="field search">
      <Icon name="search" />
      <input
        type="search"
        placeholder={what}
        aria-label={`Filter ${what.toLowerCase()}`}
        value={filter.value}
        onInput={(event) => (filter.value = event.currentTarget.value)}
      />
    </label>
  );
}
