// The console in a browser, against a real server: what a person does with it, and what is seen.
//
//   TIDEGATE_URL    the server; its tables `trades` and `site_load` are made anew
//   CHROMIUM        the browser, /usr/bin/chromium if nothing is said
//   CONSOLE_ROWS    rows of `trades`, a million if nothing is said
//   SCREENSHOTS     a folder for pictures of what was done; none if nothing is said
//
// - BR1. Every step says what it has seen, and the first one that sees something else ends it all.
// - BR2. The page asks nobody but the server, and breaks no rule of its policy.

import assert from "node:assert/strict";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { startFront } from "./front.mjs";
import { steps } from "./steps.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const {
  TIDEGATE_URL: server,
  CHROMIUM = "/usr/bin/chromium",
  CONSOLE_ROWS = "1000000",
  SCREENSHOTS,
} = process.env;
assert(server, "TIDEGATE_URL says where the server is");

/** Longer than a step takes on a busy machine. */
const PATIENCE_MS = 120_000;

async function sql(statement) {
  const headers = { "Content-Type": "text/plain" };
  const answer = await fetch(`${server}/exec?timeout=600`, {
    method: "POST",
    body: statement,
    headers,
  });
  const text = await answer.text();
  assert.equal(answer.status, 200, `${statement}: ${text}`);
  return JSON.parse(text);
}

/** A second a row: prices of three symbols, some of them NULL. */
async function makeTables(rows) {
  await sql("DROP TABLE IF EXISTS trades");
  await sql("DROP TABLE IF EXISTS site_load");
  await sql(
    `CREATE TABLE trades (ts TIMESTAMP, sym SYMBOL, side SYMBOL, price DOUBLE, qty DOUBLE,
      venue VARCHAR, id BIGINT) TIMESTAMP(ts) PARTITION BY DAY`,
  );
  // Its types are given: what a server finds in four lines is not the matter here.
  await sql(
    `CREATE TABLE site_load (ts TIMESTAMP, site SYMBOL, load DOUBLE)
      TIMESTAMP(ts) PARTITION BY DAY`,
  );
  await sql(`INSERT INTO trades SELECT dateadd('s', x::INT, '2025-03-01T00:00:00Z'::TIMESTAMP),
    CASE WHEN x % 3 = 0 THEN 'BTC' WHEN x % 3 = 1 THEN 'ETH' ELSE 'SOL' END,
    CASE WHEN x % 2 = 0 THEN 'buy' ELSE 'sell' END,
    round((100 + (x % 3) * 40 + 12 * sin(x / 23000.0) + 4 * sin(x / 1900.0 + x % 3)
      + (x * 7919 % 97) / 60.0) * 100) / 100,
    (x * 31 % 400) / 100.0,
    CASE WHEN x % 11 = 0 THEN NULL ELSE 'venue ' || (x % 7) END, x * 1000003
    FROM long_sequence(${rows})`);
}

async function main() {
  const rows = Number(CONSOLE_ROWS);
  await makeTables(rows);
  const front = await startFront(server, resolve(here, "../../dist"));
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  try {
    const context = await browser.newContext({
      viewport: { width: 1360, height: 820 },
      colorScheme: "light",
    });
    await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: front.url });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    const faults = watch(page, front.url);
    await page.goto(front.url);
    const shoot = async (name) => {
      if (SCREENSHOTS)
        await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`), caret: "initial" });
    };
    for (const [name, step] of steps) {
      const start = Date.now();
      await step({ page, rows, sql, shoot, lacks: front.lacks });
      console.log(`${name}: ${Date.now() - start} ms`); // BR1
    }
    assert.deepEqual(faults, [], "BR2");
  } finally {
    await browser.close();
    front.stop();
  }
}

/** What the page does that it must not (BR2). */
function watch(page, url) {
  const faults = [];
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("request", (request) => {
    const isOurs = request.url().startsWith(url) || /^(blob|data):/.test(request.url());
    if (!isOurs) faults.push(`request to ${request.url()}`);
  });
  void page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      // Text that is typed into an editable element brings a style of its own, which the browser
      // then refuses: nothing of the page does that.
      const isTyped =
        event.violatedDirective === "style-src-attr" && event.target?.classList?.contains("editor");
      if (!isTyped) console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`);
    });
  });
  page.on("console", (message) => {
    if (message.text().startsWith("policy: ")) faults.push(message.text());
  });
  return faults;
}

await main();
console.log("the console does what it should");
