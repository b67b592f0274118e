// Debian's Chromium, and what every page must keep to: no error on the console, no other host.
import { chromium } from "playwright-core";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** With this in the environment, the page is that of the last `npm run build`, whatever the program
 *  has: so views can be driven without building it. Sizes and times are then not those of Weir. */
const ASSETS = process.env.WEIR_PAGE_BUILT;
const TYPES = { js: "text/javascript", css: "text/css", svg: "image/svg+xml" };

/** Answers a request for a file of the page. */
function serveBuilt(route) {
  const name = new URL(route.request().url()).pathname.split("/").pop();
  const body = readFileSync(new URL(`../../assets/${name}`, import.meta.url));
  return route.fulfill({ body, contentType: TYPES[name.split(".").pop()] });
}

export class Browser {
  /** Complaints of all pages: errors on the console, requests elsewhere. */
  complaints = [];

  async open(executablePath) {
    this.chromium = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
    return this;
  }

  /** Opens a page on a link, or another one that is there once it has what is `ready`. */
  async page(address, { ready = ".body .row", ...options } = {}) {
    const context = await this.chromium.newContext({
      viewport: { width: 1440, height: 1000 },
      colorScheme: "light",
      reducedMotion: "reduce",
      ...options,
    });
    const page = await context.newPage();
    const { host } = new URL(address);
    const complain = (text) => this.complaints.push(text);
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) complain(`console: ${message.text()}`);
    });
    page.on("pageerror", (error) => complain(`error: ${error.stack ?? error.message}`));
    page.on("response", (response) => {
      if (response.status() >= 400)
        complain(`${response.status()} ${response.url().slice(0, 200)}`);
    });
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (/^http/.test(url.protocol) && url.host !== host) complain(`request to ${url.host}`);
    });
    if (ASSETS) await page.route("**/assets/*", serveBuilt);
    await page.goto(address);
    await page.waitForSelector("#state.live, #state.record");
    await page.waitForSelector(ready, { timeout: 60_000 });
    return page;
  }

  async close() {
    await this.chromium.close();
  }
}

/** Returns findings of axe that are serious or critical. */
export async function barriers(page) {
  // Only now: reading it takes longer than the page itself.
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations
    .filter((one) => ["serious", "critical"].includes(one.impact))
    .map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).slice(0, 3)}`);
}

/** Returns the rows of the tree as they are drawn, by class. */
export function rows(page) {
  return page.evaluate(() =>
    Object.fromEntries(
      [...document.querySelectorAll(".body .row")].map((row) => [
        row.dataset.class,
        {
          rate: row.querySelector(".number")?.textContent,
          well: row.querySelector(".c2")?.textContent,
          p50: row.querySelector(".c3")?.textContent,
          p99: row.querySelector(".c4")?.textContent,
          backlog: row.querySelector(".c5")?.textContent,
          dropped: row.querySelector(".c6")?.textContent,
        },
      ]),
    ),
  );
}

const UNITS = {
  "bit/s": 1,
  "kbit/s": 1e3,
  "Mbit/s": 1e6,
  "Gbit/s": 1e9,
  B: 1,
  KiB: 1024,
  MiB: 1024 ** 2,
  GiB: 1024 ** 3,
  µs: 1,
  ms: 1e3,
  s: 1e6,
  "/s": 1,
  "k/s": 1e3,
  "M/s": 1e6,
};

/** Returns both values of a cell of two courses, which are written once where they are the same. */
export function both(text) {
  const [one, other = one] = text.split(" → ");
  return [one, other];
}

/** Reads a value as the page writes it: bit/s, bytes, microseconds, or packets a second. */
export function number(text) {
  if (text === "–") return null;
  const [, value, unit] = /^([\d.]+) ?(\S+)$/.exec(text ?? "") ?? [];
  if (!(unit in UNITS)) throw new Error(`no value of the page: ${text}`);
  return Number(value) * UNITS[unit];
}

/** The time of day as the page writes it. */
export const clock = (t) => new Date(t).toTimeString().slice(0, 8);

/** Chooses a class in the tree. */
export async function choose(page, name) {
  await page.click(`.body .row[data-class="${name}"] .name`);
  await page.waitForSelector(`.row[data-class="${name}"][aria-selected="true"]`);
}

/** Goes to a tab. */
export async function tab(page, name) {
  await page.click(`#tab-${name}`);
  await page.waitForSelector(`#page-${name}:not([hidden])`);
}
