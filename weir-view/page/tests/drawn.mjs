// What is drawn equals what the server says: the rows of the tree, and the areas of the chart.
import { choose, clock, number, rows } from "./browser.mjs";
import { RATE } from "./house.mjs";
import { pause, until } from "./network.mjs";
import { atMost, must, near } from "./report.mjs";

const FIELDS = {
  rate: "sent_bps",
  p50: "p50_us",
  p99: "p99_us",
  backlog: "backlog_bytes",
  dropped: "dropped_pps",
};

export async function drawn(link, browser, output) {
  await firstPaint(link, browser);
  const page = await browser.page(link.address(), { deviceScaleFactor: 2 });
  await pause(4000);
  await hovered(page);
  const instant = await goBack(page);
  await compareRows(link, page, instant);
  await compareAreas(link, page, instant);
  await page.screenshot({ path: `${output}/past.png` });
  await page.click("text=Back to live");
  await page.waitForSelector(".live.on");
  await page.context().close();
}

/** Loads the page some times; notes its size and how long it takes until something is to see. */
async function firstPaint(link, browser) {
  const paints = [];
  let bytes = 0;
  for (let turn = 0; turn < 5; turn++) {
    const page = await browser.page(link.address());
    const [paint, sizes] = await page.evaluate(() => [
      performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
      [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
        .filter((entry) => !entry.name.includes("/view/"))
        .map((entry) => entry.encodedBodySize),
    ]);
    paints.push(paint);
    bytes = sizes.reduce((a, b) => a + b, 0);
    await page.context().close();
  }
  paints.sort((a, b) => a - b);
  atMost("first paint, median of 5 loads", paints[2], 300, "ms");
  atMost("page as sent, compressed", bytes, 300_000, "bytes");
  must("the page is compressed", bytes > 10_000 && bytes < 150_000, `${bytes} bytes`);
}

async function hovered(page) {
  await page.hover(".chart .u-over", { position: { x: 420, y: 180 } });
  const tip = await until("a box below the pointer", async () => {
    const text = await page.innerText("#tip");
    return /\d\d:\d\d:\d\d/.test(text) ? text : null;
  });
  must(
    "hovering names class, instant and value",
    /(voice|web|bulk|guests)/.test(tip) && /bit\/s/.test(tip),
    tip,
  );
  await page.mouse.move(5, 5);
}

/** Goes some seconds back by keys; returns the instant that the page says it shows. */
async function goBack(page) {
  await page.focus(".timebar input");
  const slider = page.locator(".timebar input");
  await slider.fill("60");
  const text = await until(
    "an instant of the past",
    async () => (await page.locator(".live.on").count()) === 0 && page.innerText(".instant"),
  );
  await pause(300);
  return text;
}

async function compareRows(link, page, instant) {
  const history = await link.ask("/view/history");
  const column = history.t.findIndex((t) => clock(t) === instant);
  must("the instant shown is one of the history", column >= 0, instant);
  const shown = await rows(page);
  let [worst, compared, what] = [0, 0, ""];
  for (const [name, series] of Object.entries(history.classes)) {
    for (const [cell, field] of Object.entries(FIELDS)) {
      const expected = series[field]?.[column] ?? null;
      const value = number(shown[name]?.[cell]);
      const off =
        expected === null || value === null
          ? Number(expected !== value)
          : Math.abs(value - expected) / Math.max(1, Math.abs(expected));
      compared += 1;
      if (off > worst) [worst, what] = [off, ` (${name} ${cell}: ${shown[name]?.[cell]})`];
    }
  }
  atMost(`${compared} values of the tree beside the server's${what}`, 100 * worst, 1, "%");
}

/** Measures the areas of the chart in pixels and compares them with the server's values. */
async function compareAreas(link, page, instant) {
  await page.click("text=60 s");
  await choose(page, "web");
  await pause(500);
  const history = await link.ask("/view/history");
  const at = history.t.find((t) => clock(t) === instant);
  const areas = await page.evaluate(measureAreas);
  // The chart ends a quarter of its minute behind the instant, or where the history ends.
  const [first, last] = [history.t[0], history.t.at(-1)];
  const end = Math.min(last, Math.max(at + 15_000, first + 60_000));
  const begin = Math.max(first, end - 60_000);
  const inside = (t) => t >= begin + 0.2 * (end - begin) && t <= begin + 0.8 * (end - begin);
  for (const name of ["web", "bulk"]) {
    const { sent_bps: values } = history.classes[name];
    const measured = values.filter((value, i) => value !== null && inside(history.t[i]));
    const mean = measured.reduce((sum, value) => sum + value, 0) / measured.length;
    near(
      `area of ${name} in the chart, in pixels of the link's rate`,
      (areas.heights[name] / areas.limit) * RATE,
      mean,
      0.02,
    );
  }
}

/** Runs in the page: returns the mean height of each class's colour, and that of the limit. */
function measureAreas() {
  const canvas = document.querySelector(".page-overview .chart canvas");
  const { data, width, height } = canvas
    .getContext("2d")
    .getImageData(0, 0, canvas.width, canvas.height);
  const pixel = (x, y) => [0, 1, 2].map((part) => data[4 * (y * width + x) + part]);
  const like = (a, b) => a.every((part, i) => Math.abs(part - b[i]) <= 6);
  const colours = {};
  for (const key of document.querySelectorAll(".page-overview .legend button")) {
    const { backgroundColor } = getComputedStyle(key.querySelector(".swatch"));
    colours[key.textContent] = backgroundColor.match(/\d+/g).slice(0, 3).map(Number);
  }
  const heights = Object.fromEntries(Object.keys(colours).map((name) => [name, 0]));
  const anyClass = (at) => Object.values(colours).some((colour) => like(at, colour));
  // Columns in which the second class has its colour all belong to the stack.
  const columns = [];
  for (let x = 0; x < width; x += 2) {
    let inside = 0;
    for (let y = 0; y < height; y += 3) if (anyClass(pixel(x, y))) inside += 1;
    if (inside > height / 12) columns.push(x);
  }
  const inner = columns.slice(Math.floor(columns.length * 0.2), Math.floor(columns.length * 0.8));
  const middle = inner.filter((_, i) => i % 5 === 0);
  let floor = 0;
  for (const x of middle) {
    for (let y = 0; y < height; y++) {
      const at = pixel(x, y);
      for (const [name, colour] of Object.entries(colours)) {
        if (like(at, colour)) {
          heights[name] += 1 / middle.length;
          floor = Math.max(floor, y);
        }
      }
    }
  }
  // The limit is the row in the upper half with most pixels of the muted ink.
  const muted = getComputedStyle(document.documentElement).getPropertyValue("--muted").trim();
  const ink = [1, 3, 5].map((part) => parseInt(muted.slice(part, part + 2), 16));
  let [most, limit] = [0, 0];
  let [sum, weight] = [0, 0];
  const counts = [];
  for (let y = 0; y < floor / 2; y++) {
    let found = 0;
    for (const x of middle) if (like(pixel(x, y), ink)) found += 1;
    counts.push(found);
    if (found > most) [most, limit] = [found, y];
  }
  for (let y = limit - 4; y <= limit + 4; y++) {
    sum += y * (counts[y] ?? 0);
    weight += counts[y] ?? 0;
  }
  return { heights, limit: floor + 1 - sum / weight, most, columns: middle.length };
}
