// Drives the page in a real browser against real links in private networks, and prints figures.
//
//     node tests/main.mjs WEIR OUTPUT [PART ...]
//
// WEIR is the program, OUTPUT the folder for screenshots. It takes root, for networks of its own,
// and Chromium. Exits with 0 if every goal is met, 1 if one is missed, 2 if nothing was measured.
import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { Browser } from "./browser.mjs";
import { demo } from "./demo.mjs";
import { drawn } from "./drawn.mjs";
import { files } from "./files.mjs";
import { house } from "./house.mjs";
import { looks } from "./looks.mjs";
import { endAll, enterNetwork } from "./network.mjs";
import { play } from "./play.mjs";
import { quadros } from "./quadros.mjs";
import { reacting } from "./reacting.mjs";
import { conclude, must, none } from "./report.mjs";
import { reservations } from "./reservations.mjs";
import { runs } from "./runs.mjs";
import { speed } from "./speed.mjs";
import { travel } from "./travel.mjs";
import { tuning } from "./tuning.mjs";
import { units } from "./units.mjs";
import { varying } from "./varying.mjs";
import { well } from "./well.mjs";

/** The most of what an error says, from its end: a module that fails may be all of its text. */
const WORDS = 1000;
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const ON_HOUSE = { drawn, looks, travel, tuning };
const ALONE = { varying, files, speed, quadros, demo, play, well, reservations, runs, reacting };

async function attempt(name, part) {
  console.log(`view: ${name} ...`);
  try {
    await part();
  } catch (error) {
    must(`${name} ran to its end`, false, (error.stack ?? error.message).slice(-WORDS));
  }
}

async function main(weir, output, parts) {
  const wanted = (name) => parts.length === 0 || parts.includes(name);
  mkdirSync(output, { recursive: true });
  await attempt("units", units);
  const browser = await new Browser().open(CHROMIUM);
  const onHouse = Object.entries(ON_HOUSE).filter(([name]) => wanted(name));
  if (onHouse.length > 0) {
    await attempt("house", async () => {
      const link = await house(weir, 20);
      for (const [name, part] of onHouse) {
        await attempt(name, () => part(link, browser, output));
      }
      await link.down();
    });
  }
  for (const [name, part] of Object.entries(ALONE).filter(([name]) => wanted(name))) {
    await attempt(name, () => part(weir, browser, output));
  }
  none("errors on the console, and requests to other hosts", browser.complaints);
  await browser.close();
  await endAll();
  return conclude() ? 0 : 1;
}

const [weir, output, ...parts] = process.argv.slice(2);
if (!weir || !output) {
  console.error("view: node tests/main.mjs WEIR OUTPUT [PART ...]");
  process.exit(2);
}
enterNetwork(import.meta.url);
try {
  process.exit(await main(resolve(weir), resolve(output), parts));
} catch (error) {
  console.error(`view: not measured: ${error.stack ?? error.message}`);
  await endAll();
  process.exit(2);
}
