// Tuning by hand: a slider changes what real packets get, undo brings it back, a trial ends.
import { choose, number, rows, tab } from "./browser.mjs";
import { sent } from "./house.mjs";
import { pause, until } from "./network.mjs";
import { must, near } from "./report.mjs";

const KNOB = '.knob[data-key="class.web.rate"]';

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

/** Moves the slider of a rate down; returns the share that the page predicts. */
async function slide(link, page) {
  const slider = page.locator(`${KNOB} input[type="range"]`);
  const start = Number(await slider.inputValue());
  await slider.focus();
  for (let place = start; place > start * 0.55; place -= start / 20)
    await slider.fill(String(place));
  const text = await until("the predicted effect", () =>
    page.evaluate(() => {
      const row = [...document.querySelectorAll(".effect tbody tr")].find(
        (one) => one.querySelector("th")?.textContent === "web",
      );
      return row?.querySelectorAll("td")[1]?.querySelector("b")?.textContent;
    }),
  );
  const value = await page.inputValue(`${KNOB} input:not([type="range"])`);
  const prediction = await link.ask("/view/predict", {
    direction: "upload",
    settings: [{ direction: "upload", key: "class.web.rate", value }],
  });
  const said = prediction.classes.find((one) => one.name === "web").share_bps[1];
  near("predicted share of web as drawn, beside the server's", number(text), said, 0.01);
  return said;
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
    (await page.locator(`${KNOB} input:enabled`).count()) === 0,
  );
  must("and the page says why", (await page.innerText(".locked")).includes("may only read"));
  await page.screenshot({ path: `${output}/read-only.png` });
  await page.context().close();
}
