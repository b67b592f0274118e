// Many runs: the page of a sweep and of a comparison, with the front, and a run of each looked into.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { barriers, choose, number, rows, tab } from "./browser.mjs";
import { end, served } from "./network.mjs";
import { must, near, none } from "./report.mjs";

const ROOT = new URL("../../../", import.meta.url).pathname;
const SWEEP = join(ROOT, "docs/guide/kernel-htb-quantum.toml");
const SCENARIO = join(ROOT, "examples/sim/access-link.toml");
const PVCS = join(ROOT, "examples/sim/two-pvcs.toml");
const READY = { ready: ".front .dot" };

export async function runs(weir, browser, output) {
  const folder = mkdtempSync(join(tmpdir(), "weir-runs-"));
  await swept(weir, browser, output, folder);
  await compared(weir, browser, output);
  await driven(weir, browser);
  rmSync(folder, { recursive: true });
}

const cells = (page) =>
  page
    .locator(".runs-table tbody tr")
    .evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent)));

async function swept(weir, browser, output, folder) {
  const words = ["sweep", SWEEP, "--out", join(folder, "table.csv"), "--view"];
  const { child, address } = await served(weir, words, 60_000);
  const page = await browser.page(address, READY);
  const listed = await cells(page);
  must("runs: a sweep has a row for each point", listed.length === 5, JSON.stringify(listed));
  const dots = await page.locator(".front .dot").count();
  must("runs: and a dot in the front", dots === 5, `${dots}`);
  await sorted(page);
  await fronts(page);
  none("runs: serious findings of axe", await barriers(page));
  await page.screenshot({ path: `${output}/runs.png`, fullPage: true });
  await phone(browser, address, output);
  // The run of the table, and the same run looked into.
  const told = (await cells(page)).find((row) => row[0] === "12500 B");
  const row = page.locator(".runs-table tbody tr", { hasText: "12500 B" });
  await row.locator(".opens a").nth(1).click();
  await page.waitForSelector(".body .row", { timeout: 60_000 });
  must("runs: a run is one click away", /\/run\/7\/$/.test(page.url()), page.url());
  must("runs: with its packets", await page.isVisible("canvas.heat"));
  const { small } = await rows(page);
  near("runs: and with the rates of the table", number(small.rate), 1e6 * parse(told[2]), 0.05);
  await simulated(page);
  await page.click("text=All runs");
  await page.waitForSelector(".front .dot");
  await page.locator(".front .dot").first().click();
  await page.waitForSelector(".body .row", { timeout: 60_000 });
  must("runs: a dot leads to a run, too", /\/run\/\d+\/$/.test(page.url()), page.url());
  await page.context().close();
  await end(child, "SIGINT");
  must("runs: it ends with Ctrl-C", child.exitCode === 0, `${child.exitCode}`);
}

/** A run is as `weir sim --record` writes it: packets, why they waited, and forks. */
async function simulated(page) {
  await choose(page, "small");
  await page.click("text=Packets of this time");
  await page.waitForSelector(".packets li", { timeout: 60_000 });
  const why = await page.locator(".packets li").first().innerText();
  must("runs: a simulated packet says why it waited", /small/.test(why), why);
  await tab(page, "Fork");
  await page.selectOption("#page-Fork select >> nth=0", "10");
  await page.click("text=Fork this moment");
  await page.waitForSelector(".verdict[data-identical]", { timeout: 60_000 });
  const verdict = await page.getAttribute(".verdict", "data-identical");
  must("runs: a fork of a simulation with nothing changed is the same", verdict === "true");
}

const parse = (text) => Number.parseFloat(text);

/** A heading sorts, once upwards and once downwards. */
async function sorted(page) {
  const heading = page.locator(".runs-table thead th button").nth(1);
  const column = async () => (await cells(page)).map((row) => parse(row[2]));
  await heading.click();
  const falling = await column();
  await heading.click();
  const rising = await column();
  must(
    "runs: a heading sorts both ways",
    falling[0] > falling.at(-1) && rising[0] < rising.at(-1),
    `${falling} and ${rising}`,
  );
}

/** What small gets, large loses: every point is the front. What is both ways better leaves one. */
async function fronts(page) {
  const best = () => page.locator(".front .dot.best").count();
  const choose = (label, text) =>
    page.locator(".choice", { hasText: label }).locator("select").selectOption({ label: text });
  await choose("Across", "small.rate, Mbit/s");
  await choose("Up", "large.rate, Mbit/s");
  must("runs: of two rates that share a line all are the front", (await best()) === 5);
  await choose("Up", "small.delay.p50, ms");
  must("runs: of a rate and its delay one is best", (await best()) === 1, `${await best()}`);
}

async function phone(browser, address, output) {
  for (const colorScheme of ["light", "dark"]) {
    const viewport = { width: 390, height: 844 };
    const page = await browser.page(address, { ...READY, viewport, colorScheme });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    must(`runs: fits a phone, ${colorScheme}`, wide <= 390, `${wide}`);
    none(`runs: barriers on a phone, ${colorScheme}`, await barriers(page));
    await page.screenshot({ path: `${output}/runs-phone-${colorScheme}.png`, fullPage: true });
    await page.context().close();
  }
}

async function compared(weir, browser, output) {
  const words = ["compare", SCENARIO, "--schedulers", "htb,cbq,priq", "--view"];
  const { child, address } = await served(weir, words, 60_000);
  const page = await browser.page(address, { ...READY, colorScheme: "dark" });
  const listed = (await cells(page)).map((row) => row[0]);
  must("runs: a comparison has a row a scheduler", listed.join() === "htb,cbq,priq", `${listed}`);
  none("runs: serious findings of axe in the dark", await barriers(page));
  await page.screenshot({ path: `${output}/runs-compare.png`, fullPage: true });
  await page.locator(".runs-table tbody tr", { hasText: "priq" }).locator(".opens a").click();
  await page.waitForSelector(".body .row", { timeout: 60_000 });
  const title = await page.locator("#directions button").first().getAttribute("title");
  must("runs: a run is that of its scheduler", /priq/.test(title ?? ""), title);
  await page.context().close();
  await end(child, "SIGINT");
}

/** What cannot be recorded is shown by its rates. */
async function driven(weir, browser) {
  const { child, address } = await served(weir, ["compare", PVCS, "--schedulers", "htb", "--view"]);
  const page = await browser.page(`${address.replace("#", "run/0/#")}`);
  const state = await page.innerText("#state");
  must("runs: a run behind a driver has its rates", state === "report", state);
  await page.context().close();
  await end(child, "SIGINT");
}
