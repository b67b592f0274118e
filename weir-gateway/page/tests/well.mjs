// Whether all is well, what of the past is kept, and what a page says of many levels: on a link that
// breaks a promise and keeps little.
import { barriers, choose, rows, tab } from "./browser.mjs";
import { Link, pause, until } from "./network.mjs";
import { must, none } from "./report.mjs";

const POLICY = `[link]
rate = "20 Mbit/s"
scheduler = "htb"

[class.north]
rate = "10 Mbit/s"

[class.voice]
parent = "north"
rate = "1 Mbit/s"
delay = "30 ms"
arrival = { rate = "900 kbit/s", burst = "1600 B" }
match = [{ proto = "udp", dport = 5004 }]

[class.office]
parent = "north"
rate = "9 Mbit/s"
prio = 1
queue = { dropper = "codel" }
match = [{ proto = "udp", dport = 5080 }]

[class.south]
rate = "10 Mbit/s"

[class.shop]
parent = "south"
rate = "10 Mbit/s"
prio = 1
queue = { dropper = "tail", limit = "1000 packets" }
default = true

[[promise]]
that = "shop.rate >= 13 Mbit/s"
under = "evening.toml"
`;
/** More than they are promised, but for the call. */
const TRAFFIC = { 5004: 0.5, 5080: 12, 5021: 14 };
/** The height of the window in which nothing must be looked for. */
const [WIDTH, HEIGHT] = [1440, 900];

export async function well(weir, browser, output) {
  const link = await new Link(weir, POLICY, { ring: "8 MiB" }).up();
  link.send(TRAFFIC);
  await pause(12_000);
  const viewport = { width: WIDTH, height: HEIGHT };
  const page = await browser.page(link.address(), { viewport });
  await promises(page, output);
  await marks(page);
  await beside(page);
  await time(page, output);
  await levels(page);
  await choice(page);
  await standing(page, output);
  none("well: barriers that axe finds", await barriers(page));
  await page.context().close();
  await link.down();
  await without(weir, browser, output);
}

/** The first tile says what is late and by how much, and leads to all promises. */
async function promises(page, output) {
  const tile = page.locator(".tile").first();
  await until("a broken promise", async () => (await tile.getAttribute("data-state")) === "bad");
  const text = await tile.innerText();
  must(
    "well: the first tile counts promises and says by how much one is missed",
    /1 of 2 kept/.test(text) && /shop gets \S+ Mbit\/s, \S+ Mbit\/s too little/.test(text),
    text,
  );
  await page.screenshot({ path: `${output}/well.png` });
  await tile.click();
  const list = page.locator(".panel", { has: page.locator("text=Promises of the policy") });
  await list.locator("tbody tr").first().waitFor();
  must("well: a click lists all promises", (await list.locator("tbody tr").count()) === 2);
  must("well: and what is offered beside them", /office\.rate >= /.test(await list.innerText()));
  await list.getByText("Close").click();
}

/** Marks by the classes, sorted by trouble; drops that are meant are not red. */
async function marks(page) {
  const mark = (name) => page.getAttribute(`.row[data-class="${name}"] .dot-mark`, "class");
  must("well: the class that misses its promise is marked", /trouble/.test(await mark("shop")));
  must("well: the call is well", /well/.test(await mark("voice")));
  const figure = (await rows(page)).voice.well;
  must("well: the mark has delay and promise", / of 30 ms/.test(figure), figure);
  const red = await page.locator('.row[data-class="office"] .c6.bad').count();
  must("well: drops of a class over its share are not red", red === 0);
  await page.click(".row.head .c2 button");
  await pause(1500);
  const first = await page.evaluate(() =>
    [...document.querySelectorAll(".body .row")]
      .sort((a, b) => a.getAttribute("aria-rowindex") - b.getAttribute("aria-rowindex"))
      .map((row) => row.dataset.class),
  );
  must("well: trouble comes first", first[0] === "south" && first[1] === "shop", first.join(" "));
  await page.click(".row.head .c0 button");
}

/** The heat map stands beside the classes, in the first window. */
async function beside(page) {
  const [classes, heat] = await Promise.all(
    ["#classes", "canvas.heat"].map((one) => page.locator(one).boundingBox()),
  );
  must(
    "well: the heat map stands beside the classes at 1440 x 900",
    heat.x >= classes.x + classes.width && heat.y < HEIGHT - 100,
    JSON.stringify({ classes, heat }),
  );
  const legend = await page.innerText(".heat-scale");
  must("well: the heat map's colours begin at one packet", /^1\b/.test(legend.trim()), legend);
}

/** The bar of time: what is kept, its length, its keys, and the nearest moment of one refused. */
async function time(page, output) {
  const words = () => page.innerText(".kept-words");
  const some = async () => /looked into: the last/.test(await words());
  const ends = (text) => page.click(`.timebar .segments >> text=${text}`);
  // A ring of 8 MiB, which is the least, has headers of more than a minute.
  await ends("5 min");
  const kept = () =>
    page.evaluate(() => {
      const [track, part] = [".kept", ".kept i"].map((one) =>
        document.querySelector(one).getBoundingClientRect(),
      );
      return part.width / track.width;
    });
  await until("that the ring forgets", async () => (await some()) && (await kept()) < 0.9, 240_000);
  must("well: the bar says what can be forked", await some(), await words());
  const part = await kept();
  must("well: the part that is kept is drawn", part > 0.02 && part < 0.95, `${part}`);
  await page.focus(".timebar input");
  await page.keyboard.press("ArrowLeft");
  const at = () => page.evaluate(() => Number(document.querySelector(".instant").dataset.t));
  await page.waitForSelector(".live:not(.on)");
  await pause(300);
  const first = await at();
  await page.keyboard.press("ArrowLeft");
  await until("another second", async () => (await at()) < first);
  const moved = first - (await at());
  must("well: an arrow key moves a second", moved > 700 && moved < 1300, `${moved} ms`);
  await page.keyboard.press("Home");
  await tab(page, "Fork");
  const nearest = page.locator(".nearest");
  await nearest.waitFor();
  must("well: a moment that is gone offers the nearest", /nearest/.test(await nearest.innerText()));
  await page.screenshot({ path: `${output}/nearest.png` });
  await nearest.locator("button").click();
  await nearest.waitFor({ state: "hidden" });
  await page.selectOption("#page-Fork select >> nth=0", "10");
  await page.click("text=Fork this moment");
  await page.waitForSelector(".verdict[data-identical], #page-Fork .finding", { timeout: 60_000 });
  const verdict = await page.getAttribute(".verdict", "data-identical").catch(() => null);
  must("well: the nearest moment can be forked", verdict === "true");
  await page.click("text=Back to live");
  await ends("60 s");
  await tab(page, "Overview");
}

/** Any level can be stacked, and names stand in the areas. */
async function levels(page) {
  const panel = page.locator(".panel", {
    has: page.locator("h2", { hasText: "Classes over time" }),
  });
  const stack = panel.locator(".choice", { hasText: "Stack" }).locator("select");
  const keys = () => panel.locator(".legend").innerText();
  must("well: leaves are stacked", /shop/.test(await keys()) && !/south/.test(await keys()));
  await stack.selectOption("0");
  await until("another level", async () => /south/.test(await keys()));
  must("well: sites can be stacked", !/shop/.test(await keys()), await keys());
  must("well: areas are named at their right ends", (await named(page)) > 40);
  await stack.selectOption("leaves");
}

/** Returns how many pixels near the right end of the chart have the ink of names. */
function named(page) {
  return page.evaluate(() => {
    const canvas = document.querySelector(".page-overview .chart canvas");
    const { width, height } = canvas;
    const left = Math.round(width * 0.85);
    const { data } = canvas.getContext("2d").getImageData(left, 0, width - left, height * 0.85);
    let found = 0;
    for (let at = 0; at < data.length; at += 4) {
      const [red, green, blue] = data.slice(at, at + 3);
      const dark = red < 40 && green < 45 && blue < 50 && data[at + 3] > 200;
      found += Number(dark || (red > 250 && green > 250 && blue > 250 && data[at + 3] > 200));
    }
    return found;
  });
}

/** How often the scheduler had a choice. */
async function choice(page) {
  const card = page.locator(".choices");
  const words = await until("the scheduler's choice", async () => {
    const text = await card.innerText();
    return /several classes had one: [\d.]+ %/.test(text) ? text : null;
  });
  must("well: how often the scheduler had a choice is told", true, words);
  await card.locator(".switch").click();
  await until(
    "the old card",
    async () => /several classes had packets/.test(await card.innerText()),
    60_000,
  );
  must("well: the old card is a switch", /asked the scheduler/.test(await card.innerText()));
  await card.getByText("Compare with what was").click();
  must("well: it leads to both futures", await page.isVisible("#page-Fork"));
}

/** Findings that the policy has anyway do not bury a prediction. */
async function standing(page, output) {
  await choose(page, "office");
  await tab(page, "Tune");
  await page.fill('.knob[data-key="class.office.rate"] input:not([type="range"])', "5 Mbit/s");
  await page.waitForSelector(".effect .standing");
  const open = await page.locator(".effect .standing[open]").count();
  must("well: findings of the policy as it is are folded", open === 0);
  const above = await page.locator(".effect > .findings > li").count();
  must("well: and no old finding stands above the prediction", above === 0, `${above}`);
  await page.screenshot({ path: `${output}/standing.png` });
  await page.click("text=Discard");
}

/** A policy without promises says so, and offers those that its bounds keep. */
async function without(weir, browser, output) {
  const policy = POLICY.replace(/\[\[promise\]\][^]*/, "").replace('delay = "30 ms"\n', "");
  const link = await new Link(weir, policy).up();
  link.send({ 5004: 0.5 });
  const page = await browser.page(link.address(), { viewport: { width: WIDTH, height: HEIGHT } });
  const tile = page.locator(".tile").first();
  await until("that nothing is promised", async () => /No promises/.test(await tile.innerText()));
  await tile.click();
  const offers = page.locator(".offers pre");
  await offers.waitFor();
  const text = await offers.innerText();
  must(
    "well: without promises those of the bounds are offered",
    /voice\.delay\.max <= /.test(text) && /shop\.rate >= /.test(text),
    text,
  );
  const share = await until("a stack that fits its axis", () => filled(page));
  must("well: the axis fits what is there", share > 0.4, `${share} of the chart`);
  await page.screenshot({ path: `${output}/no-promises.png` });
  await page.context().close();
  await link.down();
}

/** Returns how much of the chart's height its areas fill; `null` while there are none. */
function filled(page) {
  return page.evaluate(() => {
    const canvas = document.querySelector(".page-overview .chart canvas");
    if (!canvas) return null;
    const { width, height } = canvas;
    const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
    let top = height;
    for (let at = 0; at < data.length && top === height; at += 4) {
      const [red, green, blue, opaque] = data.slice(at, at + 4);
      const bright = Math.max(red, green, blue) - Math.min(red, green, blue) > 60;
      if (opaque > 250 && bright) top = Math.floor(at / 4 / width);
    }
    return top < height ? 1 - top / height : null;
  });
}
