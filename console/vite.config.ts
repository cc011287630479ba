// How the console is built: one page, hashed names, each file a second time as gzip.
//
// - VB1. dist/ holds what this build made and nothing else, but its .gitignore stays: the folder
//   is in git, because the build of the server watches it.
// - VB2. Every file has a .gz beside it, with the same bytes for the same input: that is what the
//   server embeds (crates/server/build.rs).
// - VB3. Whoever gets the page can get the licences of all that is in it: licenses.txt.

import { readdirSync, readFileSync, rmSync, writeFileSync, existsSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

const DIST = resolve(__dirname, "dist");
/** The server that `npm run dev` asks. */
const SERVER = process.env.TIDEGATE_URL ?? "http://127.0.0.1:9000";
const ROUTES = ["/exec", "/exp", "/imp", "/metrics", "/health", "/chk", "/settings"];

function emptied(): Plugin {
  return {
    name: "emptied",
    apply: "build",
    buildStart() {
      for (const name of existsSync(DIST) ? readdirSync(DIST) : []) {
        if (name !== ".gitignore") rmSync(join(DIST, name), { recursive: true }); // VB1
      }
    },
  };
}

function packed(): Plugin {
  return {
    name: "packed",
    apply: "build",
    enforce: "post",
    closeBundle() {
      let total = 0;
      for (const path of filesBelow(DIST)) {
        const gzip = gzipSync(readFileSync(path), { level: 9 }); // VB2
        writeFileSync(`${path}.gz`, gzip);
        total += gzip.length;
      }
      console.log(`embedded: ${(total / 1000).toFixed(0)} kB of gzip in all`);
    },
  };
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    if (statSync(path).isDirectory()) return filesBelow(path);
    return name.startsWith(".") || name.endsWith(".gz") ? [] : [path];
  });
}

function licences(): Plugin {
  return {
    name: "licences",
    apply: "build",
    generateBundle(_, bundle) {
      const folders = new Set<string>();
      for (const output of Object.values(bundle)) {
        if (output.type === "asset") {
          for (const name of output.originalFileNames ?? []) addPackage(resolve(name), folders);
        } else {
          for (const id of Object.keys(output.modules)) addPackage(id, folders);
        }
      }
      const texts = [...folders].sort().map(licenceOf);
      const source = `What the console is made of.\n\n${texts.join("\n\n")}`;
      this.emitFile({ type: "asset", fileName: "licenses.txt", source }); // VB3
    },
  };
}

/** The folder of the package that a module lies in. */
function addPackage(id: string, folders: Set<string>): void {
  const match = /^\0?(.*[\\/]node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+)[\\/]/.exec(id);
  if (match?.[1]) folders.add(match[1]);
}

function licenceOf(folder: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((entry) => /^(licen[cs]e|copying)/i.test(entry));
  if (file === undefined && license !== "MIT") {
    throw new Error(`${name} has no file with its licence: VB3`);
  }
  const text =
    file === undefined ? "Licensed under MIT." : readFileSync(join(folder, file), "utf8");
  return `== ${name} ${version} (${license})\n\n${text.trim()}`;
}

export default defineConfig({
  plugins: [emptied(), licences(), packed()],
  build: {
    outDir: DIST,
    emptyOutDir: false,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
    chunkSizeWarningLimit: 700,
  },
  worker: { format: "es" },
  server: { proxy: Object.fromEntries(ROUTES.map((route) => [route, SERVER])) },
  test: { include: ["tests/unit/**/*.test.ts"] },
} as Parameters<typeof defineConfig>[0]);
