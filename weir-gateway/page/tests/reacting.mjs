// A fork whose senders react, of a simulated line that is full: with half of the rate they send half.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { barriers, number, tab } from "./browser.mjs";
import { end, run, served } from "./network.mjs";
import { must, near, none } from "./report.mjs";

const SCENARIO = new URL("../../../examples/sim/conversations.toml", import.meta.url).pathname;

export async function reacting(weir, browser, output) {
  const folder = mkdtempSync(join(tmpdir(), "weir-reacting-"));
  const record = join(folder, "run.rec");
  run(weir, "sim", SCENARIO, "--record", record);
  const { child, address } = await served(weir, ["view", record]);
  const page = await browser.page(address);
  await tab(page, "Fork");
  await page.selectOption("#page-Fork select >> nth=0", "10");
  await page.check("#page-Fork .switch input");
  const plan = await page.innerText("#page-Fork .plan");
  must("reacting: without a change there is nothing to ask", /choose one under Tune/.test(plan));
  must("reacting: and no button for it", await page.isDisabled("text=Fork this moment"));
  await tab(page, "Tune");
  const scope = page.locator("#page-Tune select", { has: page.locator('option[value="link"]') });
  await scope.selectOption("link");
  await page.fill('.knob[data-key="link.rate"] input:not([type="range"])', "4 Mbit/s");
  await page.click(".apply >> text=Fork with this");
  must("reacting: a card is not offered", await page.isDisabled("#page-Fork select >> nth=1"));
  // A record opens near its end.
  await page.focus(".timebar input");
  await page.keyboard.press("PageDown");
  const rows = await forecast(page);
  const rate = rows.find((row) => row.class === "all" && row.figure === "throughput");
  must("reacting: half of the rate is worse", rate?.verdict === "worse", JSON.stringify(rate));
  near("reacting: and is what they send", number(rate.forecast.split(" ±")[0]), 4e6, 0.05);
  must(
    "reacting: every figure has its error bar",
    rows.length > 3 && rows.every((row) => /± [\d.]/.test(row.forecast)),
    JSON.stringify(rows),
  );
  none("reacting: barriers that axe finds", await barriers(page));
  await page.screenshot({ path: `${output}/reacting.png`, fullPage: true });
  await page.uncheck("#page-Fork .switch input");
  await page.click("text=Fork this moment");
  await page.waitForSelector(".verdict[data-identical]", { timeout: 60_000 });
  must("reacting: switched off, futures are drawn", await page.isVisible("#page-Fork canvas"));
  await page.context().close();
  await end(child, "SIGINT");
  rmSync(folder, { recursive: true });
}

/** Forks with senders that react; returns the rows of the forecast. */
export async function forecast(page) {
  await page.click("text=Fork this moment");
  await page.waitForSelector("#page-Fork td [class^=verdict-]", {
    timeout: 120_000,
  });
  return page.$$eval("#page-Fork tbody tr", (all) =>
    all.map(({ children }) => {
      const [name, figure, , forecast, verdict] = [...children].map((cell) => cell.textContent);
      return { class: name, figure, forecast, verdict };
    }),
  );
}
