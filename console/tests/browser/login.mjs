// The console in a browser, against a server that asks who somebody is.
//
//   TIDEGATE_URL    the server
//   LOGIN           a name and a password, with a colon between them
//   CHROMIUM        the browser, /usr/bin/chromium if nothing is said
//
// - LG1. What the browser was told goes with all that the page asks for, from its worker too; with
//   a wrong password it gets nothing.

import assert from "node:assert/strict";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { startFront } from "./front.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const { TIDEGATE_URL: server, LOGIN: login, CHROMIUM = "/usr/bin/chromium" } = process.env;
assert(server && login, "TIDEGATE_URL and LOGIN say where and who");

const PATIENCE_MS = 120_000;
const [username, password] = login.split(":");

/** The status of the answer to a statement, and what the page shows then. */
async function visit(browser, url, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  await page.goto(url);
  await page.locator(".cm-content").click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.insertText("SELECT 40 + 2 AS answer, current_user AS who");
  await page.keyboard.press("Escape");
  const isAnswer = (response) => response.request().postData()?.includes("AS answer") ?? false;
  const answered = page.waitForResponse(isAnswer);
  await page.keyboard.press("Control+Enter");
  const status = (await answered).status();
  if (status === 200) {
    await page.waitForFunction(() => document.querySelector(".status")?.textContent);
  }
  const text = await page.evaluate(() => document.body.innerText);
  await context.close();
  return { status, text };
}

const front = await startFront(server, resolve(here, "../../dist"));
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
try {
  const known = await visit(browser, front.url, { httpCredentials: { username, password } });
  assert.equal(known.status, 200, "LG1");
  assert(known.text.includes("42") && known.text.includes(username), known.text);
  const wrong = { username, password: `${password}?` };
  const stranger = await visit(browser, front.url, { httpCredentials: wrong });
  assert.equal(stranger.status, 401, "LG1");
  assert(!stranger.text.includes(username), stranger.text);
} finally {
  await browser.close();
  front.stop();
}
console.log("the console does what it should for who is known");
