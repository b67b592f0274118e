// `weir demo --view`: the run that it has just made, live and simulated over each other.
import { barriers, both, number } from "./browser.mjs";
import { end, start, until } from "./network.mjs";
import { must, near, none } from "./report.mjs";

const SECONDS = "4";

export async function demo(weir, browser, output) {
  const log = [];
  const child = start(weir, ["demo", "--view", "--seconds", SECONDS], log);
  const address = await until(
    "the address of the page",
    () => {
      if (child.exitCode !== null) throw Object.assign(new Error(log.join("")), { final: true });
      return /http:\S+/.exec(log.join(""))?.[0];
    },
    90_000,
  );
  const page = await browser.page(address);
  const panel = livePanel(page);
  await panel.locator("table tbody tr").first().waitFor();
  must("demo: live and simulated come first", (await panel.innerText()).includes("Live and"));
  const beside = await ask(address, "/view/beside");
  const rows = await panel
    .locator("tbody tr")
    .evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent)));
  must("demo: each class has its row", rows.length === Object.keys(beside.simulated).length);
  for (const [name, rates] of rows) {
    const [live, simulated] = both(rates);
    for (const [side, drawn] of Object.entries({ live, simulated })) {
      near(`demo: ${name}, ${side}`, number(drawn), mean(beside[side][name].sent_bps), 0.01);
    }
  }
  must("demo: the chart has lines of both", (await colours(panel)) >= rows.length);
  await panel.locator("select").selectOption("p99");
  none("demo: serious findings of axe", await barriers(page));
  await page.screenshot({ path: `${output}/demo.png`, fullPage: true });
  await page.context().close();
  await end(child, "SIGINT");
  must("demo: it ends with Ctrl-C", child.exitCode === 0 || child.exitCode === 1, log.join(""));
}

/** The panel of both courses, which is the first that is shown. */
export const livePanel = (page) => page.locator("#page-Overview .panel:visible").first();

/** Asks the page's server as a program would. */
async function ask(address, path) {
  const { origin, hash } = new URL(address);
  const headers = { Authorization: `Bearer ${hash.replace("#token=", "")}` };
  const response = await fetch(origin + path, { headers });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

function mean(values) {
  const known = values.filter((value) => value !== null);
  return known.reduce((a, b) => a + b, 0) / known.length;
}

/** Returns how many bright colours a chart has, each on more than a few pixels. */
function colours(panel) {
  return panel.locator("canvas").evaluate((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const found = new Map();
    for (let at = 0; at < data.length; at += 4) {
      const [red, green, blue, opaque] = data.slice(at, at + 4);
      if (opaque < 255 || Math.max(red, green, blue) - Math.min(red, green, blue) < 40) continue;
      const key = `${red} ${green} ${blue}`;
      found.set(key, (found.get(key) ?? 0) + 1);
    }
    return [...found.values()].filter((pixels) => pixels > 30).length;
  });
}
