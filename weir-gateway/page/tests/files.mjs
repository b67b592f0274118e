// The page on a record, on a report and over TLS; `weir view --open`; and a page that is not visible.
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { barriers, choose, number, rows, tab } from "./browser.mjs";
import { house } from "./house.mjs";
import { Link, end, pause, run, start, until } from "./network.mjs";
import { atMost, must, none } from "./report.mjs";

const ROOT = new URL("../../../", import.meta.url).pathname;

export async function files(weir, browser, output) {
  const folder = mkdtempSync(join(tmpdir(), "weir-files-"));
  const link = await house(weir, 10);
  await hidden(link, browser);
  await ownPage(weir, link, browser);
  const record = join(folder, "house.pcapng");
  run(weir, "record", "--last", "--control", join(link.folder, "control.sock"), "-o", record);
  await link.down();
  await recorded(weir, record, browser, output);
  await opened(weir, record, browser, folder);
  const report = join(folder, "report.json");
  run(weir, "sim", join(ROOT, "examples/sim/access-link.toml"), "--bins", "1s", "--json", report);
  await reported(weir, report, browser, output);
  await secured(weir, browser);
  rmSync(folder, { recursive: true });
}

/** Runs `weir view`, perhaps with a `xdg-open` of ours in front; returns it and its address. */
async function view(weir, args, path = process.env.PATH) {
  const log = [];
  const child = start("env", [`PATH=${path}`, weir, "view", ...args], log);
  const address = await until("an address of the page", () => {
    if (child.exitCode !== null) throw Object.assign(new Error(log.join("")), { final: true });
    return /http\S+/.exec(log.join(""))?.[0];
  });
  return { child, address };
}

async function ask(address, path) {
  const { origin, hash } = new URL(address);
  const headers = { Authorization: `Bearer ${hash.replace("#token=", "")}` };
  return (await fetch(origin + path, { headers })).json();
}

/** Compares the rates of the tree, which shows the end, with the last half second of the history. */
async function compareEnd(page, address, what) {
  const history = await ask(address, "/view/history");
  const shown = await rows(page);
  const { step_ms: step } = await ask(address, "/view/about");
  const columns = Math.ceil(500 / step);
  let [worst, compared] = [0, 0];
  for (const [name, { sent_bps: sent }] of Object.entries(history.classes)) {
    const known = sent.slice(-columns).filter((value) => value !== null);
    if (known.length === 0 || !shown[name]) continue;
    const told = known.reduce((a, b) => a + b, 0) / known.length;
    worst = Math.max(worst, Math.abs(number(shown[name].rate) - told) / Math.max(1, told));
    compared += 1;
  }
  atMost(`${what}: ${compared} rates of the tree beside the server's`, 100 * worst, 1, "%");
  must(`${what}: its classes have rates`, compared > 0);
}

async function recorded(weir, file, browser, output) {
  const { child, address } = await view(weir, [file]);
  const page = await browser.page(address);
  must("a record: the page says so", (await page.innerText("#state")) === "record");
  await compareEnd(page, address, "a record");
  none("a record: barriers that axe finds", await barriers(page));
  await page.screenshot({ path: `${output}/record.png`, fullPage: true });
  await choose(page, "web");
  await page.click("text=Packets of this time");
  await page.waitForSelector(".packets li", { timeout: 60_000 });
  await tab(page, "Tune");
  await page.waitForSelector(".knob");
  must("a record: it says that it cannot be changed", await page.isVisible(".locked"));
  must("a record: there is no trial", (await page.locator(".apply select").count()) === 0);
  await page.fill('.knob[data-key="class.web.rate"] input:not([type="range"])', "2 Mbit/s");
  await page.waitForSelector(".effect tbody tr");
  must("a record: what is chosen is predicted", /web/.test(await page.innerText(".effect")));
  await page.click(".apply >> text=Fork with this");
  must("a record: what is chosen can be forked", await page.isVisible("#page-Fork"));
  must(
    "a record: the fork has it",
    /class\.web\.rate/.test(await page.innerText("#page-Fork .plan")),
  );
  await tab(page, "Tune");
  await page.click("text=Discard");
  await tab(page, "Fork");
  await page.selectOption("#page-Fork select >> nth=0", "10");
  await page.click("text=Fork this moment");
  await page.waitForSelector(".verdict[data-identical]", { timeout: 60_000 });
  const verdict = await page.getAttribute(".verdict", "data-identical");
  must("a record: a fork with nothing changed is the recorded future", verdict === "true");
  await page.context().close();
  await end(child, "SIGINT");
  must("a record: `weir view` ends with Ctrl-C", child.exitCode === 0, `${child.exitCode}`);
}

/** `--open` gives the desktop's browser a file that leads to the page. */
async function opened(weir, file, browser, folder) {
  const note = join(folder, "opened");
  writeFileSync(join(folder, "xdg-open"), `#!/bin/sh\nprintf %s "$1" > ${note}\n`);
  chmodSync(join(folder, "xdg-open"), 0o755);
  const { child, address } = await view(weir, [file, "--open"], `${folder}:${process.env.PATH}`);
  const named = await until("that a browser is opened", () => readFileSync(note, "utf8"));
  must("--open: only this user may read the file", (statSync(named).mode & 0o77) === 0);
  const context = await browser.chromium.newContext();
  const page = await context.newPage();
  await page.goto(`file://${named}`);
  await page.waitForSelector(".body .row");
  must("--open: the file leads to the page", page.url().startsWith(new URL(address).origin));
  must("--open: the token is not left in the address", !page.url().includes("token"));
  await context.close();
  await end(child, "SIGINT");
}

async function reported(weir, file, browser, output) {
  const { child, address } = await view(weir, [file]);
  const page = await browser.page(address);
  must("a report: the page says so", (await page.innerText("#state")) === "report");
  await compareEnd(page, address, "a report");
  none("a report: barriers that axe finds", await barriers(page));
  must("a report: views of packets are not offered", await page.isHidden("canvas.heat"));
  must("a report: it is neither tuned nor forked", await page.isHidden("#tab-Fork"));
  const shown = page.locator(".tile:visible, .row.head > div:visible, .facts dt:visible");
  const names = (await shown.allInnerTexts()).map((text) => text.split("\n")[0]);
  must(
    "a report: what it does not tell is not shown",
    names.join() === "Is all well?,Sent,Class,Rate,Rate",
    names.join(),
  );
  await page.screenshot({ path: `${output}/report.png`, fullPage: true });
  await page.context().close();
  await end(child, "SIGINT");
}

/** A page of `weir view` on a link that serves one itself, with tokens of files. */
async function ownPage(weir, link, browser) {
  const { child, address } = await view(weir, ["--control", join(link.folder, "control.sock")]);
  const page = await browser.page(address);
  const { web } = await rows(page);
  must("`weir view --control` shows the running link", number(web.rate) > 1e6, web.rate);
  await page.context().close();
  await end(child, "SIGINT");
}

/** A page that is not visible asks for nothing more, and has no gap when it is looked at again. */
async function hidden(link, browser) {
  const page = await browser.page(link.address());
  await pause(2000);
  let asked = 0;
  page.on("request", (request) => (asked += Number(request.url().includes("/view/history"))));
  const look = (is) =>
    page.evaluate((is) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => is });
      document.dispatchEvent(new Event("visibilitychange"));
    }, is);
  await look(true);
  await pause(500);
  asked = 0;
  await pause(4500);
  must("a page that is not visible does not ask for the history", asked === 0, `${asked} times`);
  await look(false);
  await until("that it asks again", () => asked > 0);
  await pause(1500);
  await page.click(".page-overview .numbers summary >> nth=0");
  // The table is filled with the update after it was opened.
  let times = [];
  await until("that the table is filled", async () => {
    times = await page.$$eval(".page-overview .numbers >> nth=0 >> tbody th", (all) =>
      all.map((cell) => cell.textContent),
    );
    return times.length > 5;
  });
  const seconds = times.map((text) => text.split(":").reduce((sum, part) => 60 * sum + +part, 0));
  const gaps = seconds.slice(1).filter((at, i) => seconds[i] - at > 2);
  must("and has no gap afterwards", gaps.length === 0, times.join(" "));
  await page.context().close();
}

/** The page over TLS, with a certificate of its own. */
async function secured(weir, browser) {
  const link = new Link(
    weir,
    '[link]\nrate = "10 Mbit/s"\nscheduler = "drr"\n[class.all]\ndefault = true\n',
    {
      secure: true,
    },
  );
  await link.up();
  const page = await browser.page(link.address(), { ignoreHTTPSErrors: true });
  must("over TLS the page is live", (await page.innerText("#state")) === "live");
  const policy = await page.evaluate(() => isSecureContext && location.protocol);
  must("over TLS the address is https", policy === "https:");
  await page.context().close();
  await link.down();
}
