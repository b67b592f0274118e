// How much work an update of many classes is for the browser.
import { tab } from "./browser.mjs";
import { Link, pause, until } from "./network.mjs";
import { atMost, must } from "./report.mjs";

/** Seconds that are measured. */
const SECONDS = 10;
/** Milliseconds of scripting an update. */
const SCRIPT_MAX = 20;

export async function speed(weir, browser, output) {
  for (const classes of [200, 1000]) {
    const link = await new Link(weir, policy(classes)).up();
    link.send(Object.fromEntries([1, 2, 3, 4, 5, 6].map((n) => [5000 + n * 7, 4])));
    await pause(4000);
    const page = await browser.page(link.address());
    await pause(3000);
    const { updates, script } = await measure(link, page);
    must(
      `${classes} classes: updates come`,
      updates > 2 * SECONDS && updates < 4.4 * SECONDS,
      `${updates} in ${SECONDS} s`,
    );
    atMost(`${classes} classes: scripting an update`, (1000 * script) / updates, SCRIPT_MAX, "ms");
    await many(page, classes, output);
    await page.context().close();
    await link.down();
  }
}

/** Counts updates, and the time of scripts as Chromium measures it. */
async function measure(link, page) {
  const session = await page.context().newCDPSession(page);
  // In processor time of the thread, so that other work on the machine does not count.
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const scripting = async () =>
    (await session.send("Performance.getMetrics")).metrics.find(
      (one) => one.name === "ScriptDuration",
    ).value;
  const before = await scripting();
  const updates = await samples(link);
  return { updates, script: (await scripting()) - before };
}

/** Counts samples of a stream of its own for some seconds. */
async function samples(link) {
  const stop = new AbortController();
  const response = await fetch(`http://${link.web}/view/stream`, {
    signal: stop.signal,
    headers: { Authorization: `Bearer ${link.tokens.read}`, Accept: "text/event-stream" },
  });
  setTimeout(() => stop.abort(), SECONDS * 1000);
  let found = 0;
  try {
    for await (const chunk of response.body) {
      found += Buffer.from(chunk).toString().split("event: sample").length - 1;
    }
  } catch {
    /* The time is over. */
  }
  return found;
}

async function many(page, classes, output) {
  const drawn = await page.locator(".body .row").count();
  must(`${classes} classes: only visible rows are in the document`, drawn < 60, `${drawn}`);
  await page.fill('#classes input[type="search"]', "user-17");
  await pause(400);
  const found = await page.locator('.body .row[data-class="user-17"]').count();
  must(`${classes} classes: a search finds one`, found === 1);
  await page.fill('#classes input[type="search"]', "");
  const listed = async () => Number(/^\d+/.exec(await page.innerText("#classes header .muted"))[0]);
  await page.selectOption("#classes header select", "10");
  const top = await until("the top 10", async () => ((await listed()) < classes ? listed() : null));
  must(`${classes} classes: the top 10 are ten leaves`, top === 10, `${top}`);
  await page.selectOption("#classes header select", "ceiling");
  await until("those near their ceiling", async () => (await listed()) < 10);
  await page.selectOption("#classes header select", "latest");
  const latest = await until("the latest", async () => ((await listed()) > 10 ? listed() : null));
  must(`${classes} classes: the latest are a hundred`, latest === 100, `${latest}`);
  await page.selectOption("#classes header select", "all");
  await page.click("#classes header button");
  const folded = await until("folded classes", async () => (await listed()) === 1);
  must(`${classes} classes: all fold into one`, folded);
  await page.click("#classes header button");
  await until("unfolded classes", async () => (await listed()) >= classes - 25);
  await page.screenshot({ path: `${output}/classes-${classes}.png` });
  await tab(page, "Tune");
  await pause(500);
}

/** A policy with so many classes, in groups of twenty. */
function policy(classes) {
  const groups = Math.round(classes / 21);
  let [text, user] = [
    '[link]\nrate = "100 Mbit/s"\nscheduler = "htb"\n\n[class.all]\nrate = "100 Mbit/s"\n',
    0,
  ];
  for (let group = 0; group < groups; group++) {
    text +=
      `\n[class.group-${group}]\nparent = "all"\nrate = "${Math.floor(90_000 / groups)} kbit/s"\n` +
      'ceil = "100 Mbit/s"\n';
    for (let place = 0; place < 20 && user + group + 3 <= classes; place++, user++) {
      text +=
        `[class.user-${user}]\nparent = "group-${group}"\n` +
        `rate = "${Math.floor(4000 / groups)} kbit/s"\nceil = "100 Mbit/s"\n` +
        `${user === 0 ? "default = true\n" : ""}` +
        `match = [{ proto = "udp", dport = ${5000 + user} }]\n`;
    }
  }
  return text;
}
