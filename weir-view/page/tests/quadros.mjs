// The experiment of Quadros et al. by hand in the page: weights and droppers are switched while two
// floods pass, and live rates follow the weights (claim W-6 of papers/quadros).
import { choose, number, rows, tab } from "./browser.mjs";
import { sent } from "./house.mjs";
import { Link, pause, until } from "./network.mjs";
import { must, near } from "./report.mjs";

const POLICY = `[link]
rate = "10 Mbit/s"
scheduler = "altq-wfq"

[class.one]
weight = 100
queue = { dropper = "longest", limit = "64 KiB", weight = 100 }
match = [{ proto = "udp", dport = 5001 }]

[class.three]
weight = 100
queue = { dropper = "longest", limit = "64 KiB", weight = 100 }
default = true
`;

export async function quadros(weir, browser, output) {
  const link = await new Link(weir, POLICY).up();
  link.send({ 5001: 14, 5003: 14 }, 1492);
  await pause(6000);
  const page = await browser.page(link.address());
  await choose(page, "three");
  await tab(page, "Tune");
  await ratio(link, page, 1, "weights 100:100, dropper longest");
  for (const weight of [500, 1000]) {
    await change(page, { "class.three.weight": weight, "class.three.queue.weight": weight });
    await ratio(link, page, weight / 100, `weights 100:${weight}, dropper longest`);
  }
  await page.screenshot({ path: `${output}/quadros-longest.png` });
  await tail(page);
  await ratio(link, page, 10, "weights 100:1000, dropper tail");
  const delays = await rows(page);
  must(
    "with tail drop the higher weight has the lower delay",
    number(delays.three.p50) < number(delays.one.p50),
    JSON.stringify(delays),
  );
  await page.screenshot({ path: `${output}/quadros-tail.png` });
  await page.context().close();
  await link.down();
}

/** Waits until the windows have only what came after the last change, and compares rates. */
async function ratio(link, page, expected, when) {
  await pause(9500);
  const [one, three] = [await sent(link, "one", 6), await sent(link, "three", 6)];
  near(`${when}: rate of three to that of one`, three / one, expected, 0.05);
  const shown = await rows(page);
  near(
    `${when}: the same in the tree`,
    number(shown.three.rate) / number(shown.one.rate),
    expected,
    0.1,
  );
}

/** Types values into the fields of all classes and applies them at once. */
async function change(page, values) {
  await page.selectOption(".page-tune .panel select >> nth=0", "all");
  for (const [key, value] of Object.entries(values)) {
    const field = `.knob[data-key="${key}"]`;
    await page.waitForSelector(field);
    if (await page.locator(`${field} select`).count()) {
      await page.selectOption(`${field} select`, String(value));
    } else {
      await page.fill(`${field} input:not([type="range"])`, String(value));
    }
  }
  await page.selectOption(".apply select", "0");
  await page.click(".apply button.primary:enabled");
  await until("that the change is applied", () =>
    page.evaluate(() => document.querySelector(".apply button.primary").textContent === "Apply"),
  );
}

async function tail(page) {
  const values = {};
  for (const name of ["one", "three"]) {
    values[`class.${name}.queue.dropper`] = "tail";
    values[`class.${name}.queue.weight`] = "";
    values[`class.${name}.queue.limit`] = "50 packets";
  }
  await change(page, values);
}
