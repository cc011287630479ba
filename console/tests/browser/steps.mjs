// What is done in the browser, in order: each step begins where the one before has ended.

import assert from "node:assert/strict";

const WAIT = { timeout: 120_000 };
/** How long a page may stand still while rows come or are scrolled, on a machine of the tests. */
const STANDSTILL_MS = 4_000;

export const steps = [
  ["tables are there with their columns and partitions", tables],
  ["a statement runs, and its rows are seen", runs],
  ["rows scroll to the end, and few elements are made", scrolls],
  ["cells are copied, columns made wider", copies],
  ["many columns are drawn as they are seen", manyColumns],
  ["NULL is no text", nulls],
  ["names are completed from the tables", completes],
  ["an error stands at its place", errors],
  ["a chart finds time, values and series, and is zoomed", charts],
  ["a million points are a chart too", chartsAll],
  ["a statement is cancelled", cancels],
  ["another one is cancelled where all are listed", cancelsOther],
  ["a file is dropped and becomes a table", imports],
  ["rows are exported", exports_],
  ["tabs and history keep what was written", keeps],
  ["the palette and the keys work", palette],
  ["how the server is", serverView],
  ["colours are light and dark", colours],
];

async function write(page, text) {
  await page.locator(".cm-content").click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.insertText(text);
  await page.keyboard.press("Escape");
}

async function run(page, text) {
  await write(page, text);
  await page.keyboard.press("Control+Enter");
}

const status = (page, words) =>
  page.waitForFunction(
    (wanted) => document.querySelector(".status")?.textContent?.includes(wanted),
    words,
    WAIT,
  );

const cell = (page, row, column) =>
  page.locator(`.grid-row[aria-rowindex="${row + 1}"] .grid-cell[aria-colindex="${column + 2}"]`);

/** Counts how long the page answers nothing, from now on. */
async function watchStandstill(page) {
  await page.evaluate(() => {
    clearInterval(window.standstillTimer);
    window.standstill = 0;
    let last = performance.now();
    window.standstillTimer = setInterval(() => {
      const now = performance.now();
      window.standstill = Math.max(window.standstill, now - last);
      last = now;
    }, 10);
  });
}

async function checkStandstill(page, what) {
  const longest = Math.round(await page.evaluate(() => window.standstill));
  console.log(`  the longest standstill, ${what}: ${longest} ms`);
  assert(longest < STANDSTILL_MS, `the page stood still for ${longest} ms`);
}

async function tables({ page, rows }) {
  const node = page.locator(".table-node", { hasText: "trades" });
  await node.locator(".node-main").click();
  const names = await page.locator(".column-node .name").allTextContents();
  assert.deepEqual(names, ["ts", "sym", "side", "price", "qty", "venue", "id"]);
  assert.equal(await page.locator(".column-node", { hasText: "ts" }).locator(".mark").count(), 1);
  await page.locator(".node-main", { hasText: "partitions" }).click();
  const days = Math.floor(rows / 86_400) + 1;
  await page.waitForFunction(
    (count) => document.querySelectorAll(".partition").length === count,
    days,
    WAIT,
  );
}

async function runs({ page, rows, shoot }) {
  await watchStandstill(page);
  await run(page, "SELECT * FROM trades;\n\nSELECT 2 AS other");
  await page.keyboard.press("Control+Home");
  await page.keyboard.press("Control+Enter");
  await status(page, `${rows.toLocaleString("en-US")} rows in`);
  await checkStandstill(page, "while rows came");
  assert.equal(await cell(page, 1, 0).textContent(), "2025-03-01T00:00:01.000000Z");
  assert.equal(await page.locator(".grid").getAttribute("aria-rowcount"), String(rows + 1));
  await shoot("grid");
}

async function scrolls({ page, rows }) {
  await watchStandstill(page);
  await page.locator(".grid").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Control+ArrowDown");
  await cell(page, rows, 0).waitFor(WAIT);
  const last = new Date(Date.UTC(2025, 2, 1) + rows * 1_000)
    .toISOString()
    .replace(".000Z", ".000000Z");
  assert.equal(await cell(page, rows, 0).textContent(), last);
  assert.equal(await cell(page, rows, 6).textContent(), String(rows * 1_000_003));
  await page.mouse.move(700, 600);
  await page.mouse.wheel(0, -240);
  await cell(page, rows - 12, 0).waitFor(WAIT);
  // The bar at its middle is the middle row, whatever the browser's largest height is.
  await page.evaluate(() => {
    const body = document.querySelector(".grid-body");
    body.scrollTop = (body.scrollHeight - body.clientHeight) / 2;
  });
  await cell(page, Math.round(rows / 2), 0).waitFor(WAIT);
  await page.mouse.wheel(0, 24 * 3);
  await cell(page, Math.round(rows / 2) + 10, 0).waitFor(WAIT);
  const elements = await page.evaluate(() => document.querySelectorAll(".grid-row").length);
  assert(elements < 100, `${elements} rows are elements`);
  await checkStandstill(page, "while rows were scrolled");
}

async function copies({ page }) {
  await page.keyboard.press("Control+ArrowUp");
  await cell(page, 1, 0).waitFor(WAIT);
  await cell(page, 1, 0).click();
  await cell(page, 2, 2).click({ modifiers: ["Shift"] });
  await page.keyboard.press("Control+Shift+c");
  await page.locator(".notice.shown", { hasText: "Copied 6 cells" }).waitFor(WAIT);
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  assert.equal(
    copied,
    "ts\tsym\tside\n2025-03-01T00:00:01.000000Z\tETH\tsell\n2025-03-01T00:00:02.000000Z\tSOL\tbuy",
  );
  const before = await cell(page, 1, 1).boundingBox();
  const handle = await page.locator('.grid-name[data-column="1"] .grid-resize').boundingBox();
  await page.mouse.move(handle.x + 3, handle.y + 10);
  await page.mouse.down();
  await page.mouse.move(handle.x + 83, handle.y + 10, { steps: 4 });
  await page.mouse.up();
  await page.waitForTimeout(100);
  const after = await cell(page, 1, 1).boundingBox();
  assert.equal(Math.round(after.width - before.width), 80);
}

async function manyColumns({ page }) {
  const columns = Array.from({ length: 300 }, (_, i) => `x * ${i + 1} AS c${i + 1}`).join(", ");
  await run(page, `SELECT ${columns} FROM long_sequence(1000)`);
  await status(page, "1,000 rows in");
  assert.equal(await page.locator(".grid").getAttribute("aria-colcount"), "301");
  await page.locator(".grid").focus();
  await page.keyboard.press("End");
  await page.keyboard.press("End");
  await cell(page, 1, 299).waitFor(WAIT);
  assert.equal(await cell(page, 1, 299).textContent(), "300");
  const cells = await page.evaluate(() => document.querySelectorAll(".grid-cell").length);
  assert(cells < 2_000, `${cells} cells are elements`);
}

async function nulls({ page }) {
  await run(page, "SELECT NULL::DOUBLE AS a, '' AS b, 'NULL' AS c, 9223372036854775807 AS d");
  await status(page, "1 row in");
  assert.equal(
    await cell(page, 1, 0)
      .getAttribute("class")
      .then((name) => name.includes("null")),
    true,
  );
  assert.equal(await cell(page, 1, 1).textContent(), "");
  assert.equal(
    await cell(page, 1, 2)
      .getAttribute("class")
      .then((name) => name.includes("null")),
    false,
  );
  assert.equal(await cell(page, 1, 3).textContent(), "9223372036854775807");
}

async function completes({ page, shoot }) {
  await write(page, "SELECT t. FROM trades t");
  await page.keyboard.press("Control+Home");
  for (let i = 0; i < "SELECT t.".length; i++) await page.keyboard.press("ArrowRight");
  await page.keyboard.type("p");
  const list = page.locator(".cm-tooltip-autocomplete li");
  await list.first().waitFor(WAIT);
  assert.deepEqual(await list.locator(".cm-completionLabel").allTextContents(), ["price"]);
  assert.match(await list.first().textContent(), /DOUBLE/);
  await shoot("completion");
  await page.waitForTimeout(100); // The list takes no key in its first moments, by intent.
  await page.keyboard.press("Enter");
  assert.equal(await page.locator(".cm-line").textContent(), "SELECT t.price FROM trades t");
}

async function errors({ page, shoot }) {
  await run(page, "SELECT 1;\n\nSELECT sym,\n    avg(nope) AS mean\nFROM trades\nSAMPLE BY 1h;");
  await page.locator(".cm-content .fault").waitFor(WAIT);
  assert.equal(await page.locator(".cm-content .fault-mark").textContent(), "nope");
  assert.match(
    await page.locator(".failure").textContent(),
    /nope.*line 4, column 9.*SQLSTATE 42703/s,
  );
  await shoot("error");
  await page.keyboard.type(" ");
  await page.locator(".cm-content .fault").waitFor({ state: "detached", ...WAIT });
}

async function charts({ page, shoot }) {
  await run(
    page,
    "SELECT ts, sym, avg(price) AS price, sum(qty) AS qty\nFROM trades\nSAMPLE BY 30m;",
  );
  await status(page, "rows in");
  await page.keyboard.press("Alt+c");
  await page.locator(".u-over").waitFor(WAIT);
  const labels = (await page.locator(".u-legend .u-label").allTextContents()).sort();
  assert.deepEqual(labels, ["BTC", "ETH", "SOL", "time"]);
  assert.deepEqual(await page.locator('.chip[aria-pressed="true"]').allTextContents(), ["price"]);
  const box = await page.locator(".u-over").boundingBox();
  const timeAt = async (x) => {
    await page.mouse.move(box.x + x, box.y + 60);
    await page.waitForTimeout(150);
    return Date.parse(`${await page.locator(".u-legend .u-value").first().textContent()}Z`);
  };
  const whole = (await timeAt(box.width - 4)) - (await timeAt(4));
  await shoot("chart");
  await page.mouse.move(box.x + box.width / 4, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2, box.y + 60, { steps: 6 });
  await page.mouse.up();
  await page.waitForTimeout(200);
  const zoomed = (await timeAt(box.width - 4)) - (await timeAt(4));
  const part = zoomed / whole;
  assert(0.2 < part && part < 0.3, `a quarter was chosen, ${part} is shown`);
  await page.locator("button", { hasText: "Whole range" }).click();
  await page.waitForTimeout(200);
  assert((await timeAt(box.width - 4)) - (await timeAt(4)) === whole);
}

async function chartsAll({ page, rows }) {
  await run(page, "SELECT ts, price FROM trades");
  await status(page, `${rows.toLocaleString("en-US")} rows in`);
  await page.waitForFunction(
    () => document.querySelectorAll(".u-legend .u-label").length === 2,
    null,
    WAIT,
  );
  await page.locator(".u-over").hover();
  await page.mouse.wheel(0, -300);
  await page.waitForTimeout(300);
  assert.match(await page.locator(".u-legend .u-value").first().textContent(), /^2025-03-/);
  await page.keyboard.press("Alt+g");
}

const LONG =
  "SELECT count(*) FROM long_sequence(2000000) a JOIN long_sequence(2000000) b " +
  "ON a.x % 3 + b.x % 5 > a.x % 2";

async function cancels({ page, sql }) {
  await run(page, LONG);
  await page.locator(".run-bar .stop").waitFor(WAIT);
  await page.waitForTimeout(700);
  const start = Date.now();
  await page.locator(".run-bar .stop").click();
  await page.locator(".failure", { hasText: "57014" }).waitFor(WAIT);
  console.log(`  it ended ${Date.now() - start} ms after the click`);
  await noneWorks(sql);
}

async function noneWorks(sql) {
  for (let i = 0; i < 100; i++) {
    const { dataset } = await sql("SELECT query FROM query_activity()");
    if (!dataset.some(([query]) => query.startsWith("SELECT count(*) FROM long_sequence"))) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.fail("the statement still works on the server");
}

async function cancelsOther({ page, sql, shoot }) {
  await run(page, LONG);
  await page.locator("nav button", { hasText: "Activity" }).click();
  const card = page.locator(".statement", { hasText: "long_sequence" });
  await card.waitFor(WAIT);
  assert(!(await card.textContent()).includes("-- console:"), "our mark is not shown");
  await page.waitForTimeout(1_200);
  await shoot("activity");
  await card.locator("button", { hasText: "Cancel" }).click();
  await card.waitFor({ state: "detached", ...WAIT });
  await noneWorks(sql);
  await page.locator("nav button", { hasText: "Query" }).click();
  await page.locator(".failure", { hasText: "57014" }).waitFor(WAIT);
}

const FILE =
  "ts,site,load\n2025-03-01T00:00:00Z,oslo,41.5\n2025-03-01T00:00:05Z,bergen,40.25\n" +
  "2025-03-01T00:00:07Z,bergen,lots\n2025-03-01T00:00:10Z,oslo,42\n";

/** Drops a file onto the page. */
async function drop(page, name) {
  const transfer = await page.evaluateHandle(
    ([text, called]) => {
      const files = new DataTransfer();
      files.items.add(new File([text], called, { type: "text/csv" }));
      return files;
    },
    [FILE, name],
  );
  await page.dispatchEvent("body", "dragover", { dataTransfer: transfer });
  await page.locator(".drop-zone").waitFor(WAIT);
  await page.dispatchEvent("body", "drop", { dataTransfer: transfer });
}

async function imports({ page, sql, shoot }) {
  const job = page.locator(".job");
  // For a table that is not there yet, the column of times is offered.
  await drop(page, "2025 load.csv.txt");
  await job.locator(".preview td").first().waitFor(WAIT);
  assert.equal(await job.locator("input").first().inputValue(), "t_2025_load");
  assert.equal(await job.locator("select").first().inputValue(), "ts");
  await job.locator('button[aria-label^="Remove"]').click();
  await drop(page, "Site load.csv");
  await job.locator(".preview td").first().waitFor(WAIT);
  assert.equal(await job.locator("input").first().inputValue(), "site_load");
  assert.equal(await job.locator("input").nth(1).inputValue(), "ts");
  assert(await job.locator("input").nth(1).isDisabled(), "the table says what its timestamp is");
  await shoot("import");
  await job.locator("button[type=submit]").click();
  await job.locator(".imported").waitFor(WAIT);
  assert.match(
    await job.locator(".imported").textContent(),
    /3 rows into site_load.*1 row left out/s,
  );
  assert.deepEqual((await sql("SELECT count() FROM site_load")).dataset, [[3]]);
  await job.locator("button", { hasText: "Show rejected input" }).click();
  await job.locator(".rejects td").first().waitFor(WAIT);
  const reject = await job.locator(".rejects tbody tr").first().locator("td").allTextContents();
  assert.deepEqual([reject[0], reject[1], reject[2]], ["4", "load", "lots"]);
  await shoot("imported");
  await page.locator("nav button", { hasText: "Query" }).click();
  await page.locator(".table-node", { hasText: /site_load.*3/ }).waitFor(WAIT);
}

async function exports_({ page }) {
  await run(page, "SELECT site, load FROM site_load ORDER BY ts");
  await status(page, "3 rows in");
  const expected = '"site","load"\r\n"oslo",41.5\r\n"bergen",40.25\r\n"oslo",42';
  for (const button of ["Shown rows", "All as CSV"]) {
    const [download] = await Promise.all([
      page.waitForEvent("download", WAIT),
      page.locator("button", { hasText: button }).click(),
    ]);
    const parts = [];
    for await (const part of await download.createReadStream()) parts.push(part);
    const text = Buffer.concat(parts)
      .toString()
      .trimEnd()
      .replace(/42\.0$/, "42");
    assert.equal(text, expected, button);
  }
}

async function keeps({ page }) {
  await page.keyboard.press("Alt+t");
  await page.waitForFunction(() => document.querySelectorAll(".tab").length === 2);
  await run(page, "SELECT 41 + 1 AS answer");
  await status(page, "1 row in");
  await page.waitForTimeout(600);
  await page.reload();
  await page.locator(".tab.shown", { hasText: "Query 2" }).waitFor(WAIT);
  assert.equal(await page.locator(".cm-content").textContent(), "SELECT 41 + 1 AS answer");
  await page.locator(".side-tabs button", { hasText: "History" }).click();
  assert.equal(await page.locator(".past code").first().textContent(), "SELECT 41 + 1 AS answer");
  await page.locator(".side-tabs button", { hasText: "Tables" }).click();
  await page.keyboard.press("Alt+w");
  await page.waitForFunction(() => document.querySelectorAll(".tab").length === 1);
}

async function palette({ page, shoot }) {
  await page.locator(".table-node", { hasText: "site_load" }).waitFor(WAIT);
  await page.keyboard.press("Control+k");
  await page.locator(".palette-field input:focus").waitFor(WAIT);
  await page.keyboard.type("site_load");
  await page.waitForTimeout(200);
  await shoot("palette");
  await page.keyboard.press("Enter");
  await status(page, "3 rows in");
  await page.keyboard.press("F1");
  await page.locator(".keys").waitFor(WAIT);
  await page.keyboard.press("Escape");
  await page.locator(".keys").waitFor({ state: "detached", ...WAIT });
}

async function serverView({ page, shoot }) {
  await page.locator("nav button", { hasText: "Server" }).click();
  await page.locator(".list td", { hasText: "trades" }).first().waitFor(WAIT);
  await page.locator(".share", { hasText: "process" }).waitFor(WAIT);
  await page.waitForTimeout(4_500);
  assert.match(
    await page.locator(".tile", { hasText: "Memory" }).locator(".value").textContent(),
    /iB$/,
  );
  await shoot("server");
  await page.locator("nav button", { hasText: "Query" }).click();
}

async function colours({ page, shoot }) {
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.emulateMedia({ colorScheme: "dark" });
  await page.waitForTimeout(100);
  const dark = await ground();
  assert.notEqual(light, dark);
  await run(
    page,
    "SELECT ts, sym, avg(price) AS price, sum(qty) AS qty\nFROM trades\n" +
      "WHERE ts IN '2025-03'\nSAMPLE BY 30m;",
  );
  await status(page, "rows in");
  await page.keyboard.press("Alt+c");
  await page.locator(".u-over").hover();
  await page.waitForTimeout(200);
  await shoot("dark");
  await page.locator('button[aria-label="Colours: as the system"]').click();
  await page.waitForTimeout(100);
  assert.equal(await ground(), light);
}
