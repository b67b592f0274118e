// Builds the page into ../assets: one script, one style sheet, the document and the icon.
//
//     node build.mjs            writes ../assets
//     node build.mjs --check    builds, compares with ../assets, and exits with 1 if they differ
//
// The files are committed, so that Rust alone builds Weir.
import { build } from "esbuild";
import { gzipSync } from "node:zlib";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const assets = join(here, "..", "assets");
/** The limit of all files together, compressed. */
const COMPRESSED_MAX = 300_000;

/** Returns the licence of a library whose code is in the script. */
function licence(library) {
  const text = readFileSync(join(here, "node_modules", library, "LICENSE"), "utf8");
  return `/*! ${library}\n${text.trim()}\n*/`;
}

/** Bundles one entry to text; names and white space are shortened. */
async function bundle(entry, banner) {
  const made = await build({
    absWorkingDir: here,
    entryPoints: [entry],
    bundle: true,
    minify: true,
    write: false,
    target: "es2022",
    format: "iife",
    legalComments: "none",
    external: ["/assets/*"],
    banner,
  });
  return made.outputFiles[0].text;
}

/** Returns all files of the page by name. */
async function files() {
  const source = (name) => readFileSync(join(here, "src", name), "utf8");
  return {
    "index.html": source("index.html"),
    "icon.svg": source("icon.svg"),
    "theme.js": await bundle("src/theme.ts", {}),
    "page.css": await bundle("src/page.css", {}),
    "page.js": await bundle("src/main.ts", { js: licence("uplot") }),
  };
}

/** Returns what differs between the built files and those in ../assets. */
function differences(made) {
  const present = readdirSync(assets);
  const stale = present.filter((name) => !(name in made)).map((name) => `${name}: not built`);
  const changed = Object.entries(made)
    .filter(
      ([name, text]) =>
        !present.includes(name) || readFileSync(join(assets, name), "utf8") !== text,
    )
    .map(([name]) => `${name}: not what its source builds`);
  return [...stale, ...changed];
}

const made = await files();
const size = Object.values(made).reduce(
  (sum, text) => sum + gzipSync(text, { level: 9 }).length,
  0,
);
console.log(`page: ${Object.keys(made).length} files, ${size} bytes compressed`);
if (size > COMPRESSED_MAX) {
  console.error(`page: above the limit of ${COMPRESSED_MAX} bytes`);
  process.exit(1);
}
if (process.argv.includes("--check")) {
  const found = differences(made);
  found.forEach((line) => console.error(`weir-gateway/assets/${line}; run npm run build`));
  process.exit(found.length === 0 ? 0 : 1);
}
mkdirSync(assets, { recursive: true });
for (const [name, text] of Object.entries(made)) writeFileSync(join(assets, name), text);
