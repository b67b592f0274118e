// Every view in light, dark and on a phone: screenshots, and no serious barrier.
import { barriers, choose, tab } from "./browser.mjs";
import { pause, until } from "./network.mjs";
import { must, none } from "./report.mjs";

const LOOKS = {
  light: { colorScheme: "light" },
  dark: { colorScheme: "dark" },
  phone: {
    colorScheme: "light",
    viewport: { width: 390, height: 844 },
    deviceScaleFactor: 2,
    isMobile: true,
    hasTouch: true,
  },
};

export async function looks(link, browser, output) {
  for (const [look, options] of Object.entries(LOOKS)) {
    const page = await browser.page(link.address(), options);
    await choose(page, "bulk");
    await pause(2500);
    for (const name of ["Overview", "Tune", "Fork"]) {
      await tab(page, name);
      await pause(500);
      await page.evaluate(() => scrollTo(0, 0));
      none(`barriers that axe finds: ${name}, ${look}`, await barriers(page));
      await page.screenshot({
        path: `${output}/${look}-${name.toLowerCase()}.png`,
        fullPage: true,
      });
    }
    const wide = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    must(`nothing is wider than the window: ${look}`, wide <= 0, `${wide} px`);
    await page.context().close();
  }
  await keyboard(link, browser);
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
