// Every view at three widths, light and dark: screenshots, nothing cut off, no serious barrier.
import { barriers, choose, tab } from "./browser.mjs";
import { pause, until } from "./network.mjs";
import { must, none } from "./report.mjs";

const WIDTHS = {
  wide: { viewport: { width: 1440, height: 1000 } },
  tablet: { viewport: { width: 1024, height: 768 } },
  phone: {
    viewport: { width: 390, height: 844 },
    deviceScaleFactor: 2,
    isMobile: true,
    hasTouch: true,
  },
};

/** What is done in a view before it is looked at, so that there is something in it. */
const VIEWS = {
  Overview: () => {},
  Tune: async (page) => {
    await page.fill('.knob[data-key="class.bulk.rate"] input:not([type="range"])', "3 Mbit/s");
    await page.waitForSelector(".effect tbody tr");
  },
  Fork: async (page) => {
    await page.selectOption("#page-Fork select >> nth=0", "10");
    await page.selectOption("#page-Fork select >> nth=1", "chain");
    await page.click("text=Fork this moment");
    await page.waitForSelector(".verdict[data-identical]", { timeout: 60_000 });
  },
};

export async function looks(link, browser, output) {
  for (const [width, options] of Object.entries(WIDTHS)) {
    for (const colorScheme of ["light", "dark"]) {
      const page = await browser.page(link.address(), { ...options, colorScheme });
      await choose(page, "bulk");
      await pause(2500);
      for (const [name, fill] of Object.entries(VIEWS)) {
        const look = `${name}, ${width}, ${colorScheme}`;
        await tab(page, name);
        await fill(page);
        await pause(500);
        await page.evaluate(() => scrollTo(0, 0));
        none(`barriers that axe finds: ${look}`, await barriers(page));
        const cut = await page.evaluate(cutOff);
        must(`nothing is cut off: ${look}`, cut.length === 0, cut.join("; "));
        await page.screenshot({
          path: `${output}/${width}-${colorScheme}-${name.toLowerCase()}.png`,
          fullPage: true,
        });
      }
      await page.context().close();
    }
  }
  await keyboard(link, browser);
}

/** Runs in the page: returns what is wider than the window, and words wider than their box. */
function cutOff() {
  const root = document.documentElement;
  const wide = root.scrollWidth > root.clientWidth ? [`page ${root.scrollWidth} px`] : [];
  const texts = [...document.querySelectorAll("button, select, label, h2, h3, .tile b, .number")];
  const cut = texts.filter((one) => one.offsetParent && one.scrollWidth > one.clientWidth + 1);
  return [...wide, ...cut.map((one) => `${one.className || one.tagName} ${one.textContent}`)];
}

/** Reaches everything by keys alone. */
async function keyboard(link, browser) {
  const page = await browser.page(link.address());
  const reached = new Set();
  for (let step = 0; step < 80; step++) {
    await page.keyboard.press("Tab");
    reached.add(
      await page.evaluate(() => {
        const { activeElement: at } = document;
        return at.getAttribute("role") ?? at.className ?? at.tagName;
      }),
    );
  }
  const wanted = ["treegrid", "tab", "application"];
  must(
    "keys reach tree, tabs and charts",
    wanted.every((one) => reached.has(one)),
    [...reached].join(", "),
  );
  await page.focus('[role="treegrid"]');
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowDown");
  const chosen = () => page.getAttribute('.row[aria-selected="true"]', "data-class");
  const below = await until("the class below the first", async () => (await chosen()) === "family");
  must("arrow keys go through classes", below);
  await page.context().close();
}
