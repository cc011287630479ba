// What the browser of the tests talks to: a real server, and what it does not have yet.
//
// - FR1. Everything goes to the server as it came, but: a page that it has not got comes from
//   dist/, with the same policy; /imp and /exp, if it has none, are answered here, in its form.
//
// The fake /imp takes a row for good if its last field is a number, and says what it has left out.

import { createServer, request as send } from "node:http";
import { readFileSync, existsSync } from "node:fs";
import { join, extname } from "node:path";

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; " +
  "img-src 'self' data:; connect-src 'self'; worker-src 'self'; form-action 'self'; " +
  "base-uri 'none'; frame-ancestors 'none'";
const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
  ".txt": "text/plain; charset=utf-8",
};

/** Starts it; gives its address and what it stands in for. */
export async function startFront(server, dist) {
  const lacks = {
    page: !(await typeOf(server, "GET", "/")).startsWith("text/html"),
    imp: (await statusOf(server, "POST", "/imp")) === 404,
    exp: (await statusOf(server, "GET", "/exp?query=select%201")) === 404,
  };
  const rejects = [];
  const front = createServer((request, response) => {
    const path = new URL(request.url, "http://front").pathname;
    if (lacks.imp && path === "/imp") void imports(request, response, server, rejects);
    else if (lacks.exp && path === "/exp") void exports(request, response, server);
    else if (lacks.page && request.method === "GET" && hasFile(dist, path))
      file(response, dist, path);
    else if (path === "/exec" && lacks.imp) void exec(request, response, server, rejects);
    else forward(request, response, server);
  });
  await new Promise((resolve) => front.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${front.address().port}`, lacks, stop: () => front.close() };
}

async function typeOf(server, method, path) {
  return (await fetch(server + path, { method })).headers.get("content-type") ?? "";
}

async function statusOf(server, method, path) {
  const answer = await fetch(server + path, { method });
  await answer.arrayBuffer();
  return answer.status;
}

function forward(request, response, server, body) {
  const { hostname, port } = new URL(server);
  // The field Host stays that of the browser's address, so that its Origin is its Host.
  const options = {
    hostname,
    port,
    path: request.url,
    method: request.method,
    headers: request.headers,
  };
  const onward = send(options, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
    answer.on("aborted", () => response.destroy());
  });
  onward.on("error", () => response.destroy());
  response.on("close", () => onward.destroy());
  if (body === undefined) request.pipe(onward);
  else onward.end(body);
}

function pathOf(dist, path) {
  return join(dist, path === "/" ? "index.html" : path);
}

function hasFile(dist, path) {
  return (
    !path.includes("..") &&
    (path === "/" || extname(path) in TYPES) &&
    existsSync(pathOf(dist, path))
  );
}

function file(response, dist, path) {
  const type = path === "/" ? TYPES[".html"] : TYPES[extname(path)];
  response.writeHead(200, { "Content-Type": type, "Content-Security-Policy": POLICY });
  response.end(readFileSync(pathOf(dist, path)));
}

async function bodyOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts);
}

/** A statement about rejects of the fake is answered by it. */
async function exec(request, response, server, rejects) {
  const body = await bodyOf(request);
  if (!body.includes("sys.copy_rejects")) return forward(request, response, server, body);
  const columns = ["line", "column_name", "raw", "reason", "action"].map((name, i) => ({
    name,
    type: i === 0 ? "LONG" : "VARCHAR",
  }));
  response.writeHead(200, { "Content-Type": "application/json" });
  response.end(
    JSON.stringify({ query: "", columns, timestamp: -1, dataset: rejects, count: rejects.length }),
  );
}

async function imports(request, response, server, rejects) {
  const params = new URL(request.url, "http://front").searchParams;
  const text = (await bodyOf(request)).toString();
  const answer = (status, value) => {
    response.writeHead(status, { "Content-Type": "application/json" });
    response.end(JSON.stringify(value));
  };
  const part = /name="data"; filename="[^"]*"\r\n(?:[^\r]+\r\n)*\r\n([\s\S]*)\r\n--/.exec(text);
  if (!part) return answer(400, { status: "there is no part `data`" });
  const [head, ...lines] = part[1].trimEnd().split("\n");
  const names = head.split(",");
  const isGood = (line) =>
    line.split(",").at(-1).trim() !== "" && Number.isFinite(Number(line.split(",").at(-1)));
  rejects.length = 0;
  lines.forEach((line, i) => {
    if (!isGood(line))
      rejects.push([i + 2, names.at(-1), line.split(",").at(-1), "not a DOUBLE", "row_skipped"]);
  });
  if (params.get("atomicity") === "abort" && 0 < rejects.length) {
    return answer(400, {
      status: `line ${rejects[0][0]}: not a DOUBLE`,
      code: "22P02",
      line: rejects[0][0],
      column: names.at(-1),
    });
  }
  const table = params.get("name");
  const [time, ...others] = names;
  const sql = async (query) =>
    (
      await fetch(`${server}/exec`, {
        method: "POST",
        body: query,
        headers: { "Content-Type": "text/plain" },
      })
    ).json();
  const typeOfPlace = (i) => (i === others.length - 1 ? "DOUBLE" : "SYMBOL");
  const made = others.map((name, i) => `${name} ${typeOfPlace(i)}`).join(", ");
  const by = params.get("partitionBy") ?? "NONE";
  await sql(
    `CREATE TABLE IF NOT EXISTS ${table} (${time} TIMESTAMP, ${made}) ` +
      `TIMESTAMP(${time}) PARTITION BY ${by}`,
  );
  const rows = lines.filter(isGood).map(
    (line) =>
      `(${line
        .split(",")
        .map((value) => `'${value}'`)
        .join(",")})`,
  );
  await sql(`INSERT INTO ${table} VALUES ${rows.join(",")}`);
  const columns = names.map((name, i) => ({
    name,
    type: i === 0 ? "TIMESTAMP" : i === names.length - 1 ? "DOUBLE" : "SYMBOL",
    size: 8,
    errors: i === names.length - 1 ? rejects.length : 0,
  }));
  answer(200, {
    status: "OK",
    location: table,
    rowsRejected: rejects.length,
    rowsImported: rows.length,
    header: true,
    partitionBy: params.get("partitionBy") ?? "NONE",
    timestamp: time,
    warnings: [],
    columns,
    importId: "1f7e09c35ab2d864",
  });
}

async function exports(request, response, server) {
  const query = new URL(request.url, "http://front").searchParams.get("query");
  const answer = await (await fetch(`${server}/exec?${new URLSearchParams({ query })}`)).json();
  response.writeHead(200, {
    "Content-Type": "text/csv; charset=utf-8",
    "Content-Disposition": 'attachment; filename="tidegate-query-1.csv"',
  });
  const text = (cell) =>
    typeof cell === "string" ? `"${cell.replaceAll('"', '""')}"` : String(cell ?? "");
  const line = (cells) => `${cells.map(text).join(",")}\r\n`;
  response.write(line(answer.columns.map(({ name }) => name)));
  response.end(answer.dataset.map(line).join(""));
}
