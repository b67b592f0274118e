// `weir demo --play`: a link with traffic that goes on, its page with the tour, and its end.
import {
  chmodSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { barriers, choose, number, rows, tab } from "./browser.mjs";
import { end, pause, start, until } from "./network.mjs";
import { must, none } from "./report.mjs";

/** The cards of the tour, each with what its button brings into view. */
const CARDS = [
  ["Shares move", '.knob[data-key="class.backup.rate"]'],
  ["The call stays", "canvas.heat"],
  ["Fork this moment", "#page-Fork"],
  ["Ask why a packet was late", ".packets li"],
  ["Switch the old card", ".choices .runs:not(:empty)"],
];

export async function play(weir, browser, output) {
  const before = networks();
  const log = [];
  const folder = mkdtempSync(join(tmpdir(), "weir-play-"));
  const note = join(folder, "opened");
  writeFileSync(join(folder, "xdg-open"), `#!/bin/sh\nprintf %s "$1" > ${note}\n`);
  chmodSync(join(folder, "xdg-open"), 0o755);
  const desktop = [`PATH=${folder}:${process.env.PATH}`, "DISPLAY=:99"];
  const child = start("env", [...desktop, weir, "demo", "--play"], log);
  const address = await until(
    "the address of the page",
    () => {
      if (child.exitCode !== null) throw Object.assign(new Error(log.join("")), { final: true });
      return /http:\S+/.exec(log.join(""))?.[0];
    },
    60_000,
  );
  must("play: the address asks for the tour", address.endsWith("&tour"), address);
  const named = await until("that a browser is opened", () => readFileSync(note, "utf8"));
  must("play: with a display the page is opened", readFileSync(named, "utf8").includes(address));
  must("play: networks of its own", networks().size > before.size);
  const page = await browser.page(address);
  await traffic(page);
  await tour(page, output);
  await moved(page);
  await page.reload();
  await page.waitForSelector(".body .row");
  must("play: the tour does not come back", (await page.locator(".tour").count()) === 0);
  await page.context().close();
  await end(child, "SIGINT");
  must("play: it ends with Ctrl-C", child.exitCode === 0, `${child.exitCode} ${log.join("")}`);
  const left = [...networks()].filter((one) => !before.has(one));
  rmSync(folder, { recursive: true });
  must("play: no namespace is left", left.length === 0, left.join(" "));
}

/** Returns the network namespaces that processes are in. */
function networks() {
  const found = new Set();
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      found.add(readlinkSync(`/proc/${pid}/ns/net`));
    } catch {
      /* It has ended meanwhile. */
    }
  }
  return found;
}

/** Each class has packets, and the promises are told of. */
async function traffic(page) {
  const names = ["call", "video", "web", "backup", "flood", "guest"];
  const shown = await until("packets of each class", async () => {
    const now = await rows(page);
    return names.every((name) => number(now[name]?.rate) > 0) ? now : null;
  });
  must("play: the flood offers more than it gets", number(shown.flood.dropped) > 0);
  const tile = page.locator(".tile.well");
  await until("promises", async () => /kept/i.test(await tile.innerText()));
  must(
    "play: under a scheduler without loans there is no card of them",
    await page.isHidden(".loans"),
  );
  const figure = await until("the mark of the call", async () => {
    const text = await page.innerText('.body .row[data-class="call"] .c2');
    return / of 10 ms/.test(text) ? text : null;
  });
  must("play: the call's mark has its delay and its promise", true, figure);
}

/** Goes through the cards, each of which shows what it speaks of; leaves at the last but one. */
async function tour(page, output) {
  const card = page.locator(".tour");
  for (const [at, [title, found]] of CARDS.entries()) {
    must(`play: card ${at + 1} is ${title}`, (await card.locator("h2").innerText()) === title);
    await card.locator(".primary").click();
    await page.locator(found).first().waitFor({ timeout: 60_000 });
    must(`play: ${title} shows what it speaks of`, true);
    if (title === "Fork this moment") {
      const plan = await page.innerText("#page-Fork .plan");
      const [, ago, length] = /state (\d+) s ago .* on for (\d+) s/.exec(plan) ?? [];
      must("play: the fork is no longer than what is kept", ago === length, plan);
    }
    if (at === 0) none("play: barriers that axe finds", await barriers(page));
    await page.screenshot({ path: `${output}/play-${at + 1}.png` });
    if (at + 1 < CARDS.length) await card.getByText("Next").click();
  }
  await until("the old card", async () => /several classes had/.test(await runs(page)), 60_000);
  must("play: the old card has a figure", /in [\d.]+ % of them/.test(await runs(page)));
  await card.getByRole("button", { name: "Leave the tour" }).click();
  must("play: the tour can be left", (await card.count()) === 0);
}

const runs = (page) => page.innerText(".choices .runs");

/** A slider moves real packets. */
async function moved(page) {
  await choose(page, "backup");
  await tab(page, "Tune");
  const before = number((await rows(page)).backup.rate);
  const field = page.locator('.knob[data-key="class.backup.rate"]');
  const slider = field.locator('input[type="range"]');
  await slider.fill(String(Number(await slider.inputValue()) - 300));
  await page.waitForSelector(".effect tbody tr");
  const told = await page.innerText(".effect");
  must("play: what the slider would do is known beforehand", !/depends/.test(told), told);
  await page.click(".apply button.primary");
  await page.waitForSelector(".trial");
  await pause(2000);
  const after = await until("less for the upload", async () => {
    const now = number((await rows(page)).backup.rate);
    return now < 0.7 * before ? now : null;
  });
  must("play: a slider changes real packets", after < 0.7 * before, `${before} to ${after}`);
  await page.click(".trial >> text=Undo now");
}
