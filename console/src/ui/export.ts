// An answer as a file: the rows that are here, or all of them from /exp.
//
// - XP1. The page stays where it is, whatever the server answers: a link downloads, a form goes to
//   a page of its own.

import { toCsv } from "../data/table_text";
import type { Result } from "../state/tabs";

/** Above that, a statement does not go into an address (`http.max_header_bytes` is 64 KiB). */
const URL_MAX = 16_000;

export async function exportLoaded({ rows }: Result): Promise<void> {
  if (!rows) return;
  const parts: string[] = [];
  for (const part of toCsv(rows)) {
    parts.push(part);
    // The page is drawn in between, however many rows there are.
    if (parts.length % 8 === 0) await new Promise((resolve) => setTimeout(resolve));
  }
  const url = URL.createObjectURL(new Blob(parts, { type: "text/csv;charset=utf-8" }));
  download(url, `tidegate-rows-${Date.now()}.csv`);
  // The download has begun when the click returns; the rows are held until then.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export function exportAll(sql: string): void {
  const url = `/exp?${new URLSearchParams({ query: sql, fmt: "csv" })}`;
  if (url.length < URL_MAX) download(url, "");
  else postTo("/exp", { query: sql, fmt: "csv" });
}

function download(url: string, name: string): void {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
}

function postTo(action: string, fields: Record<string, string>): void {
  const form = document.createElement("form");
  Object.assign(form, { method: "post", action, target: "_blank", hidden: true });
  for (const [name, value] of Object.entries(fields)) {
    const field = document.createElement("textarea");
    Object.assign(field, { name, value });
    form.append(field);
  }
  document.body.append(form);
  form.submit();
  form.remove();
}
