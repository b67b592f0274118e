// Tuning by hand: a slider changes what real packets get, undo brings it back, a trial ends.
import { choose, number, rows, tab } from "./browser.mjs";
import { sent } from "./house.mjs";
import { pause, until } from "./network.mjs";
import { must, near } from "./report.mjs";

const field = (name) => `.knob[data-key="class.${name}.rate"]`;
/** The rate of web below which its slider is moved, and that of web and bulk together. */
const [WEB_AFTER, CHILDREN] = [5e6, 13e6];

export async function tuning(link, browser, output) {
  const page = await browser.page(link.address());
  await choose(page, "web");
  await tab(page, "Tune");
  const before = await sent(link, "web", 4);
  const predicted = await slide(link, page);
  await page.screenshot({ path: `${output}/tune.png` });
  await apply(page, "60000");
  await page.screenshot({ path: `${output}/trial.png` });
  await pause(6500);
  const after = await sent(link, "web", 4);
  near("rate of web after its slider moved, beside the predicted share", after, predicted, 0.06);
  must(
    "the slider changed the shares of real packets",
    after < before * 0.85,
    `${before} to ${after}`,
  );
  near("rate of web in the tree meanwhile", number((await rows(page)).web.rate), after, 0.06);
  await page.click(".trial >> text=Undo now");
  await back(link, page, before, "after undo");
  await slide(link, page);
  await apply(page, "10000");
  await until(
    "the end of the trial",
    async () => (await page.locator(".trial").count()) === 0,
    20_000,
  );
  await back(link, page, before, "after the trial ended unconfirmed");
  await confirmAndReturn(link, page, before);
  await page.context().close();
  await readOnly(link, browser, output);
}

/** Moves the slider of a rate down, and gives what it loses to another class, so that the rates sum
 *  to their parent's as before; returns the share that the page predicts. */
async function slide(link, page) {
  await choose(page, "web");
  const slider = page.locator(`${field("web")} input[type="range"]`);
  const written = page.locator(`${field("web")} input:not([type="range"])`);
  let place = Number(await slider.inputValue());
  while (number(await written.inputValue()) > WEB_AFTER) await slider.fill(String((place -= 4)));
  const web = await written.inputValue();
  const bulk = `${(CHILDREN - number(web)) / 1e6} Mbit/s`;
  await choose(page, "bulk");
  await page.fill(`${field("bulk")} input:not([type="range"])`, bulk);
  const settings = Object.entries({ web, bulk }).map(([name, value]) => ({
    direction: "upload",
    key: `class.${name}.rate`,
    value,
  }));
  const prediction = await link.ask("/view/predict", { direction: "upload", settings });
  const said = prediction.classes.find((one) => one.name === "web").share_bps[1];
  const text = await until("the predicted effect", () => page.evaluate(predicted));
  near("predicted share of web as drawn, beside the server's", number(text), said, 0.01);
  return said;
}

/** Runs in the page: returns the predicted share of web once it is drawn. */
function predicted() {
  const rows = [...document.querySelectorAll(".effect tbody tr")];
  const of = (name) => rows.find((row) => row.querySelector("th")?.textContent === name);
  const after = of("bulk")?.querySelectorAll("td")[1]?.querySelector("b")?.textContent;
  return after && /bit/.test(after)
    ? of("web")?.querySelectorAll("td")[1]?.querySelector("b")?.textContent
    : null;
}

async function apply(page, trial) {
  await page.selectOption(".apply select", trial);
  await page.click(".apply button.primary");
  await page.waitForSelector(".trial");
}

async function back(link, page, before, when) {
  await pause(6500);
  near(`rate of web ${when}`, await sent(link, "web", 4), before, 0.06);
}

async function confirmAndReturn(link, page, before) {
  await slide(link, page);
  await apply(page, "60000");
  await page.click(".trial >> text=Keep");
  await until("that the trial is over", async () => (await page.locator(".trial").count()) === 0);
  const { log } = await link.ask("/log");
  must(
    "a kept change stands in the history",
    log.at(-1).on_trial === false,
    JSON.stringify(log.at(-1)),
  );
  await page.click("text=Undo last change");
  await back(link, page, before, "after the undo of a kept change");
}

async function readOnly(link, browser, output) {
  const page = await browser.page(link.address(link.tokens.read));
  await choose(page, "web");
  await tab(page, "Tune");
  await page.waitForSelector(".knob");
  must(
    "a token that reads cannot tune",
    (await page.locator(`${field("web")} input:enabled`).count()) === 0,
  );
  must("and the page says why", (await page.innerText(".locked")).includes("may only read"));
  await page.screenshot({ path: `${output}/read-only.png` });
  await page.context().close();
}
