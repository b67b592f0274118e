// The pictures of README and docs, from the real thing: `cargo xtask pictures`.
//
//     node tests/pictures.mjs WEIR WEIR_LAB OUTPUT [PART ...]
//
// Each view of the page is taken light and dark; what `--plot` draws is one file, which follows the
// reader's scheme itself. It takes root, for networks of its own, and Chromium. Exits with 1 if a
// picture is not made, or is larger than a page of text should load.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Browser, choose, tab } from "./browser.mjs";
import { livePanel } from "./demo.mjs";
import { end, endAll, enterNetwork, served } from "./network.mjs";
import { reserving } from "./reservations.mjs";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const ROOT = new URL("../../../", import.meta.url).pathname;
const SCHEMES = ["light", "dark"];
/** The most bytes of a picture. */
const BYTES_MAX = 300_000;
const SCENARIO = join(ROOT, "examples/sim/access-link.toml");
const QUANTA = join(ROOT, "docs/guide/kernel-htb-quantum.toml");
/** What `--plot` draws of a command, by the name of the picture. */
const DRAWN = {
  compare: ["compare", SCENARIO, "--schedulers", "htb,cbq,priq"],
  "first-link": ["sim", "examples/walk/evening.toml"],
  measure: ["replay", "examples/walk/uplink.toml", "examples/walk/evening.pcap.gz"],
  "kernel-htb": ["sweep", QUANTA],
};
/** The experiments that guides and pages of papers speak of, each with what its page shows. */
const PLOTS = ["R-F14", "P-3", "D-1", "W-8", "H-1", "N-AO", "l4s"];
/** The lines of `weir lab run queues`, each a picture. */
const QUEUES = ["upload", "hosts", "round trips", "flood", "marks"];

const PARTS = { demo, record, levels, swept, reserved, drawn, experiments };

function run(program, ...args) {
  const { status, stderr } = spawnSync(program, args, { encoding: "utf8", cwd: ROOT });
  // 1: a row of an experiment fails, which its page says.
  if (status !== 0 && status !== 1) throw new Error(`${program} ${args.join(" ")}: ${stderr}`);
}

/** Takes a view of the page in each scheme; `look` leads there and returns what to take. */
async function taken(browser, address, name, look, options = {}) {
  for (const colorScheme of SCHEMES) {
    const viewport = { width: 1280, height: 800 };
    const page = await browser.page(address, { viewport, colorScheme, ...options });
    const shown = (await look(page)) ?? page;
    // The head follows the page and would cover what is taken.
    await page.evaluate(() => (document.querySelector("header").style.position = "static"));
    await page.mouse.move(0, 0);
    await shown.screenshot({ path: join(browser.output, `${name}-${colorScheme}.png`) });
    await page.context().close();
  }
}

/** Live and simulated over each other, of the demo's run. */
async function demo({ weir }, browser) {
  const { child, address } = await served(weir, ["demo", "--view"], 300_000);
  await taken(browser, address, "demo", async (page) => {
    const panel = livePanel(page);
    await panel.locator("table tbody tr").first().waitFor();
    return panel;
  });
  await end(child, "SIGINT");
}

/** A simulation: its classes over time, why packets waited, and another future. */
async function record({ weir, folder }, browser) {
  const file = join(folder, "access-link.pcapng");
  run(weir, "sim", SCENARIO, "--record", file);
  const { child, address } = await served(weir, ["view", file], 60_000);
  await taken(browser, address, "view", async (page) => {
    await page.waitForTimeout(500);
  });
  await taken(browser, address, "why", async (page) => {
    await choose(page, "web");
    await page.click("text=Packets of this time");
    await page.waitForSelector(".packets li", { timeout: 60_000 });
    const packets = page.locator(".packets li").first();
    await packets.scrollIntoViewIfNeeded();
  });
  await taken(browser, address, "fork", async (page) => {
    await choose(page, "video");
    await tab(page, "Tune");
    await page.fill('.knob[data-key="class.video.ceil"] input:not([type="range"])', "6 Mbit/s");
    await page.waitForTimeout(600);
    await tab(page, "Fork");
    await page.selectOption("#page-Fork select >> nth=0", "10");
    await page.click("text=Fork this moment");
    await page.waitForSelector(".verdict[data-identical]", { timeout: 60_000 });
    await page.waitForTimeout(500);
    return page.locator("#page-Fork");
  });
  await end(child, "SIGINT");
}

/** Subscribers of a provider, stacked by their access points. */
async function levels({ weir, folder }, browser) {
  const file = join(folder, "wisp.pcapng");
  run(weir, "sim", join(ROOT, "examples/wisp/evening.toml"), "--record", file);
  const { child, address } = await served(weir, ["view", file], 60_000);
  await taken(browser, address, "levels", async (page) => {
    await choose(page, "s1006");
    await page.selectOption(".page-overview .panel .choice-slot select", "1");
    await page.waitForTimeout(800);
    await page.evaluate(() => (document.querySelector(".rows").scrollTop = 0));
  });
  await end(child, "SIGINT");
}

/** The front and the table of a sweep. */
async function swept({ weir, folder }, browser) {
  const words = ["sweep", QUANTA, "--out", join(folder, "runs.csv"), "--view"];
  const { child, address } = await served(weir, words);
  await taken(browser, address, "runs", () => {}, { ready: ".front .dot" });
  await end(child, "SIGINT");
}

/** What a host has reserved for a flow of another one, on the page of the router between them. */
async function reserved({ weir }, browser) {
  await reserving(weir, ({ address }) =>
    taken(browser, address, "reserve", async (page) => {
      const panel = page.locator(".reservations");
      await panel.locator("tbody tr", { hasText: "Mbit/s" }).first().waitFor();
      return panel;
    }),
  );
}

/** What commands draw of what they did. */
function drawn({ weir, folder }, browser) {
  for (const [name, words] of Object.entries(DRAWN)) {
    const table = words[0] === "sweep" ? ["--out", join(folder, `${name}.csv`)] : [];
    run(weir, ...words, ...table, "--plot", join(browser.output, `${name}.svg`));
  }
}

/** Experiments of papers: historic, sound and the paper's values on the same axes. */
function experiments({ lab }, browser) {
  for (const id of PLOTS) {
    run(lab, "run", id, "--plot", join(browser.output, `${id}.svg`));
  }
  for (const line of QUEUES) {
    const file = join(browser.output, `queues-${line.replace(" ", "-")}.svg`);
    run(lab, "run", "queues", "--only", `${line}: `, "--plot", file);
  }
}

async function main([weir, lab, output, ...parts]) {
  mkdirSync(output, { recursive: true });
  const folder = mkdtempSync(join(tmpdir(), "weir-pictures-"));
  const browser = await new Browser().open(CHROMIUM);
  browser.output = resolve(output);
  const wanted = ([name]) => parts.length === 0 || parts.includes(name);
  for (const [name, part] of Object.entries(PARTS).filter(wanted)) {
    console.log(`pictures: ${name} ...`);
    await part({ weir: resolve(weir), lab: resolve(lab), folder }, browser);
  }
  await browser.close();
  rmSync(folder, { recursive: true });
  const sizes = spawnSync("find", [output, "-type", "f", "-printf", "%f\n"], { encoding: "utf8" });
  const large = sizes.stdout
    .split("\n")
    .filter((name) => name && statSync(join(output, name)).size > BYTES_MAX);
  if (large.length > 0) throw new Error(`larger than ${BYTES_MAX} bytes: ${large.join(", ")}`);
  return 0;
}

enterNetwork(import.meta.url);
let status = 1;
try {
  status = await main(process.argv.slice(2));
} catch (error) {
  console.error(`pictures: ${error.message}`);
}
await endAll();
process.exit(status);
