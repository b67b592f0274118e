// Time travel and fork: without a change the simulator makes the recorded future again, with one it
// makes another; and packets behind the heat map with what their delays consist of.
import { both, choose, tab } from "./browser.mjs";
import { pause, until } from "./network.mjs";
import { forecast } from "./reacting.mjs";
import { atMost, must } from "./report.mjs";

export async function travel(link, browser, output) {
  const page = await browser.page(link.address());
  await choose(page, "web");
  await packets(link, page, output);
  await tab(page, "Fork");
  await page.selectOption("#page-Fork select >> nth=0", "10");
  must(
    "a fork with nothing changed is the recorded future",
    (await fork(page)) === "true",
    await page.innerText(".verdict"),
  );
  await tab(page, "Tune");
  await page.fill('.knob[data-key="class.web.rate"] input:not([type="range"])', "2 Mbit/s");
  await pause(600);
  await tab(page, "Fork");
  must(
    "a fork with a changed rate is another future",
    (await fork(page)) === "false",
    await page.innerText(".verdict"),
  );
  const cells = await page.evaluate(() =>
    [...document.querySelectorAll("#page-Fork tbody tr")]
      .find((row) => row.querySelector("th")?.textContent === "web")
      .innerText.split(/\t/),
  );
  const [was, is] = both(cells[1]);
  must("the forked future has another rate of web", was !== is, cells.join(" "));
  await page.screenshot({ path: `${output}/fork.png` });
  await page.check("#page-Fork .switch input");
  const web = (await forecast(page)).find((row) => row.class === "web");
  must(
    "senders that react are forecast from the ring of a running link",
    web?.figure === "throughput" && web.verdict === "worse",
    JSON.stringify(web),
  );
  await page.context().close();
}

/** Forks; returns whether both futures are the same, as the page says. */
async function fork(page) {
  await page.evaluate(() => document.querySelector(".verdict")?.remove());
  const begin = Date.now();
  await page.click("text=Fork this moment");
  await page.waitForSelector(".verdict[data-identical], #page-Fork .finding", { timeout: 60_000 });
  const words = await page.innerText("#page-Fork [role=status]");
  const packets = /[\d,]+ packets/.exec(words)?.[0];
  console.log(`  a fork of 10 s, ${packets}: ${Date.now() - begin} ms until it is drawn`);
  return page.getAttribute(".verdict", "data-identical", { timeout: 1000 }).catch(() => null);
}

async function packets(link, page, output) {
  await page.focus("canvas.heat");
  await pause(2500);
  for (const key of ["ArrowLeft", "ArrowLeft", "ArrowLeft"]) await page.keyboard.press(key);
  const answer = page.waitForResponse(/\/view\/packets/, { timeout: 60_000 });
  await page.keyboard.press("Enter");
  const { packets: known } = await (await answer).json();
  await page.waitForSelector(".packets li", { timeout: 60_000 });
  const shown = await page.evaluate(() =>
    [...document.querySelectorAll(".packets li")].map((li) => ({
      sentence: li.querySelector(".sentence").textContent,
      head: li.querySelector(".packet-head span").textContent,
      parts: Object.fromEntries(
        [...li.querySelectorAll(".parts i")].map((piece) => [
          piece.dataset.part,
          piece.getBoundingClientRect().width,
        ]),
      ),
      width: li.querySelector(".parts").getBoundingClientRect().width,
    })),
  );
  must(
    "each packet has its sentence",
    shown.every((one) => one.sentence.includes("web")),
    shown[0]?.sentence,
  );
  const numbers = shown.map((one) => Number(/packet (\d+)/.exec(one.head)[1]));
  const pairs = shown
    .map((one, at) => [one, known.find((packet) => packet.n === numbers[at])])
    .filter(([, packet]) => packet);
  must("all packets of the answer are drawn", pairs.length === known.length && pairs.length > 0);
  let worst = 0;
  for (const [one, packet] of pairs) {
    const sum = Object.values(packet.parts_us).reduce((a, b) => a + b, 0);
    const drawn = Object.values(one.parts).reduce((a, b) => a + b, 0);
    for (const [part, width] of Object.entries(one.parts)) {
      // Browsers lay out each piece in steps of 1/64 of a pixel.
      const steps = (Object.keys(one.parts).length + 1) / 64;
      const off = Math.abs(width - (drawn * packet.parts_us[part]) / sum) - steps;
      worst = Math.max(worst, off / drawn);
    }
    // The port comes after the delay, which ends when the run loop hands the packet out.
    const { port = 0 } = packet.parts_us;
    const off = Math.abs(sum - port - packet.total_us);
    worst = Math.max(worst, off / Math.max(1, packet.total_us));
  }
  atMost(`bars of ${pairs.length} packets beside their parts of the delay`, 100 * worst, 1, "%");
  const list = page.locator(".panel", { has: page.locator(".packets") });
  await list.screenshot({ path: `${output}/packets.png` });
}
