// What is drawn equals what the server says: the rows of the tree, and the areas of the chart.
import { choose, clock, number, rows } from "./browser.mjs";
import { RATE } from "./house.mjs";
import { pause, until } from "./network.mjs";
import { atMost, must } from "./report.mjs";

const FIELDS = {
  rate: "sent_bps",
  p50: "p50_us",
  p99: "p99_us",
  backlog: "backlog_bytes",
  dropped: "dropped_pps",
};

export async function drawn(link, browser, output) {
  await firstPaint(link, browser);
  const page = await browser.page(link.address(), { deviceScaleFactor: 4 });
  await minute(link);
  await hovered(page);
  const instant = await goBack(page);
  await compareRows(link, page, instant);
  await compareAreas(link, page, instant);
  await page.screenshot({ path: `${output}/past.png` });
  await page.click("text=Back to live");
  await page.waitForSelector(".live.on");
  await page.context().close();
}

/** How often the page is loaded. */
const LOADS = 9;

/** Loads the page some times; notes its size and how long it takes until something is to see. */
async function firstPaint(link, browser) {
  const paints = [];
  let bytes = 0;
  for (let turn = 0; turn < LOADS; turn++) {
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
  atMost(`first paint, median of ${LOADS} loads`, paints[(LOADS - 1) / 2], 300, "ms");
  atMost("page as sent, compressed", bytes, 300_000, "bytes");
  must("the page is compressed", bytes > 10_000 && bytes < 150_000, `${bytes} bytes`);
}

/** Waits until the history has more than the minute that the chart shows later. */
function minute(link) {
  const lasts = ({ from, to }) => to - from > 66_000;
  return until("a minute of history", async () => lasts(await link.ask("/view/about")), 70_000);
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

/** Compares the areas of the chart, pixel by pixel, with the server's values at each column. */
async function compareAreas(link, page, instant) {
  await page.click("text=60 s");
  await choose(page, "web");
  await page.mouse.move(5, 5);
  await pause(500);
  const history = await link.ask("/view/history");
  const at = history.t.find((t) => clock(t) === instant);
  // The chart ends a quarter of its minute behind the instant, or a minute behind the first one.
  const end = Math.max(at + 15_000, history.t[0] + 60_000);
  must("the chart shows a minute that is over", end < history.t.at(-1) - 1000);
  const { columns, limit } = await page.evaluate(measureAreas);
  for (const name of AREAS) {
    let [sum, off, compared] = [0, 0, 0];
    for (const { part, heights } of columns) {
      const told = valueAt(history.t, history.classes[name].sent_bps, end - 60_000 * (1 - part));
      if (told === null) continue;
      off += Math.abs((heights[name] / limit) * RATE - told);
      sum += told;
      compared += 1;
    }
    must(`${name} is drawn over most of a minute`, compared > 400, `${compared} columns`);
    const what = `area of ${name} in ${compared} columns of pixels beside the server's rates`;
    atMost(what, (100 * off) / sum, 1, "%");
  }
}

/** The classes whose areas have another area above and below; a dash hides the edge of the top. */
const AREAS = ["web", "bulk"];

/** Returns the value on the straight line between two instants; `null` outside. */
function valueAt(t, values, at) {
  const after = t.findIndex((one) => one >= at);
  const [before, behind] = [values[after - 1] ?? null, values[after] ?? null];
  if (after < 1 || before === null || behind === null) return null;
  return before + ((behind - before) * (at - t[after - 1])) / (t[after] - t[after - 1]);
}

/** Runs in the page: returns for each column of pixels how high each class's area is, and the
 *  height of the line's rate. An edge of two areas lies in the middle of the pixels between them. */
function measureAreas() {
  const chart = document.querySelector(".page-overview .chart:has(canvas)");
  const canvas = chart.querySelector("canvas");
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  const scale = width / canvas.getBoundingClientRect().width;
  const [outer, inner] = [canvas, chart.querySelector(".u-over")].map((one) =>
    one.getBoundingClientRect(),
  );
  const box = {
    left: Math.round((inner.left - outer.left) * scale),
    right: Math.round((inner.right - outer.left) * scale),
    bottom: Math.round((inner.bottom - outer.top) * scale),
  };
  const colours = [...document.querySelectorAll(".page-overview .legend button")].map((key) => [
    key.textContent,
    getComputedStyle(key.querySelector(".swatch"))
      .backgroundColor.match(/\d+/g)
      .slice(0, 3)
      .map(Number),
  ]);
  const is = (x, y, colour) => {
    const at = 4 * (y * width + x);
    return data[at + 3] > 250 && colour.every((part, i) => Math.abs(part - data[at + i]) <= 6);
  };
  const classAt = (x, y) => colours.find(([, colour]) => is(x, y, colour))?.[0] ?? null;
  /** The areas of a column from below; `null` where something else is drawn over them. */
  const heightsAt = (x) => {
    const heights = {};
    let [below, between] = [null, 0];
    for (let y = box.bottom - 1; y >= 0; y--) {
      const name = classAt(x, y);
      if (name === null) {
        between += 1;
        continue;
      }
      if (between > 3 * scale && below !== null) return null;
      if (below !== null) heights[below] += between / 2;
      heights[name] = (heights[name] ?? 0) + 1 + (below === null ? between : between / 2);
      [below, between] = [name, 0];
    }
    return Object.keys(heights).length === colours.length ? heights : null;
  };
  const columns = [];
  for (let x = box.left; x < box.right; x++) {
    const heights = heightsAt(x);
    if (heights) columns.push({ part: (x + 0.5 - box.left) / (box.right - box.left), heights });
  }
  // The limit is a dashed line of the muted ink: its middle, weighted by how opaque pixels are.
  const muted = getComputedStyle(document.documentElement).getPropertyValue("--muted").trim();
  const ink = [1, 3, 5].map((part) => parseInt(muted.slice(part, part + 2), 16));
  const counts = [];
  for (let y = 0; y < box.bottom / 2; y++) {
    counts.push(0);
    for (let x = box.left; x < box.right; x++) if (is(x, y, ink)) counts[y] += 1;
  }
  const most = Math.max(...counts);
  const rows = counts.flatMap((count, y) => (count > most / 2 ? [y + 0.5] : []));
  const middle = rows.reduce((sum, y) => sum + y, 0) / rows.length;
  return { columns, limit: box.bottom - middle };
}
