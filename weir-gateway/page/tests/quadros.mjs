// The experiment of Quadros et al. by hand in the page: weights and droppers are switched while two
// floods pass, and live rates follow the weights (claim W-6 of papers/quadros). Beside it the page
// forks each moment through the old card of the paper, with the packets that really came, and shows
// what that card caused (claims W-1 to W-5).
import { both, choose, number, rows, tab } from "./browser.mjs";
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
  const longest = [await oldCard(page, "weights 100:100, dropper longest")];
  for (const weight of [500, 1000]) {
    await change(page, { "class.three.weight": weight, "class.three.queue.weight": weight });
    const when = `weights 100:${weight}, dropper longest`;
    await ratio(link, page, weight / 100, when);
    longest.push(await oldCard(page, when));
  }
  await page.screenshot({ path: `${output}/quadros-longest.png` });
  judgeLongest(longest);
  await lengths(page);
  await tail(page);
  await ratio(link, page, 10, "weights 100:1000, dropper tail");
  judgeTail(await oldCard(page, "weights 100:1000, dropper tail"));
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

/** Forks the last ten seconds through the old card; returns what the page shows of it. */
async function oldCard(page, when) {
  // The ring of the record begins anew with each change.
  await pause(3000);
  await tab(page, "Fork");
  await page.selectOption("#page-Fork select >> nth=0", "10");
  await page.selectOption("#page-Fork select >> nth=1", "chain");
  await page.evaluate(() => document.querySelector(".verdict")?.remove());
  const answer = page.waitForResponse(/\/view\/fork/, { timeout: 60_000 });
  await page.click("text=Fork this moment");
  const told = await (await answer).json();
  await page.waitForSelector(".verdict[data-identical]");
  const shown = await page.evaluate(readFork);
  await tab(page, "Tune");
  near(`${when}, old card: runs with a choice as shown`, shown.part, part(told.runs), 0.01);
  return { when, ...shown };
}

const part = ({ all, contended }) => contended / all;

/** Runs in the page: returns the numbers of both futures, by class, and how often the scheduler had
 *  a choice. */
function readFork() {
  const rows = [...document.querySelectorAll("#page-Fork tbody tr")];
  const cells = (row) => [...row.querySelectorAll("td")].map((cell) => cell.textContent);
  return {
    part:
      Number(/in ([\d.]+) %/.exec(document.querySelector("#page-Fork .runs").textContent)[1]) / 100,
    classes: Object.fromEntries(
      rows.map((row) => [row.querySelector("th").textContent, cells(row)]),
    ),
  };
}

/** Returns rate, mean delay and drops of both classes behind the old card. */
function behind({ classes }) {
  const of = (cells) => {
    const [rate, , delay, drops] = cells.map((cell) => both(cell)[1]);
    return { rate: number(rate), delay: number(delay), drops: Number(drops.replaceAll(",", "")) };
  };
  return { one: of(classes.one), three: of(classes.three) };
}

function judgeLongest(forks) {
  const all = forks.map(behind);
  for (const { when, part } of forks) {
    // The paper's 21 % is at twice the load of the line; here come 2.8 times as much.
    near(`W-1, ${when}, old card: part of runs with packets in both queues`, part, 0.21, 0.25);
  }
  const ratios = all.map(({ one, three }) => three.rate / one.rate);
  const words = ratios.map((ratio) => ratio.toFixed(2)).join(", ");
  must(
    "W-3, old card: three sends more with more weight, far from in proportion",
    ratios[0] < ratios[1] && ratios[1] < ratios[2] && ratios[2] > 1.2 && ratios[2] < 4,
    words,
  );
  console.log(`  old card, rate of three to that of one at weights 100, 500, 1000: ${words}`);
  const drops = all.map(({ three }) => three.drops);
  must("W-3, old card: three loses fewer", drops[0] > drops[1] && drops[1] > drops[2], `${drops}`);
  const delays = all.map(({ one, three }) => three.delay / one.delay);
  must(
    "W-4, old card: the higher weight has the higher mean delay",
    delays[1] > 1 && delays[2] > 1,
    `${delays}`,
  );
}

/** The queues of the live link are as long as the dropper of the paper lets them grow, on average
 *  of some looks: a packet more or less is a quarter of the shorter one. */
async function lengths(page) {
  let [short, long] = [0, 0];
  for (let look = 0; look < 12; look++) {
    const { one, three } = await rows(page);
    short += number(one.backlog);
    long += number(three.backlog);
    await pause(400);
  }
  const ratio = long / short;
  must("W-2: queue lengths tend to 4 and 40 packets", ratio > 8 && ratio < 14, `${ratio}`);
}

function judgeTail(fork) {
  const { one, three } = behind(fork);
  near(`W-5, ${fork.when}, old card: rate of three`, three.rate, one.rate, 0.02);
  near(`W-5, ${fork.when}, old card: mean delay of three`, three.delay, one.delay, 0.05);
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
