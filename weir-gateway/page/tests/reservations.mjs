// Reservations by RSVP: a real one between two hosts and a router, as the page shows it.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { barriers } from "./browser.mjs";
import { end, start, until } from "./network.mjs";
import { must, none } from "./report.mjs";

const WEB = "127.0.0.1:8399";
const TOKEN = "c".repeat(40);
const POLICY = `[link]
rate = "10 Mbit/s"
scheduler = "hfsc"

[class.reserved]
rate = "6 Mbit/s"
places = { count = 100, rate = "1 kbit/s" }

[class.signals]
parent = "reserved"
rate = "100 kbit/s"
match = { proto = "46" }

[class.rest]
rate = "3 Mbit/s"
default = true
`;
const deployment = (folder) => `[deployment]
name = "reserving-${process.pid}"
ports = { host = "right" }
control = "${join(folder, "control.sock")}"
web = "${WEB}"

[deployment.api]
listen = "127.0.0.1:8398"
token_file = "token"

[deployment.rsvp]
class = "reserved"

[direction.out]
from = "host"
to = "wire"
policy = "policy.toml"
`;

function run(line) {
  const [program, ...args] = line.split(" ");
  const { status, stderr } = spawnSync(program, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${line}: ${stderr}`);
}

/** Joins a network of its own to this one, which is the router's. */
async function host(side, number) {
  const child = start("unshare", ["-n", "sleep", "3600"]);
  await until("a network of its own", () => {
    const { status } = spawnSync("nsenter", ["-t", String(child.pid), "-n", "ip", "link"]);
    const [own, other] = ["self", child.pid].map((one) => readNet(one));
    return status === 0 && own !== other;
  });
  const inside = `nsenter -t ${child.pid} -n ip`;
  run(`ip link add ${side} type veth peer name eth0 netns ${child.pid}`);
  run(`ip address add 10.${number}.0.2/24 dev ${side}`);
  run(`ip link set ${side} up`);
  run(`${inside} address add 10.${number}.0.${number === 1 ? 1 : 3}/24 dev eth0`);
  run(`${inside} link set eth0 up`);
  run(`${inside} link set lo up`);
  run(`${inside} route add default via 10.${number}.0.2`);
  return child;
}

const readNet = (process) =>
  spawnSync("readlink", [`/proc/${process}/ns/net`], { encoding: "utf8" }).stdout.trim();

/** Lets a host reserve through a router for a flow of another one; `look` gets the address of the
 *  router's page, what both hosts run, and what was printed. */
export async function reserving(weir, look) {
  const folder = mkdtempSync(join(tmpdir(), "weir-page-"));
  const write = (name, text) => writeFileSync(join(folder, name), text, { mode: 0o600 });
  write("token", TOKEN);
  write("policy.toml", POLICY);
  write("link.toml", deployment(folder));
  const log = [];
  const [sender, receiver] = [await host("left", 1), await host("right", 2)];
  writeFileSync("/proc/sys/net/ipv4/ip_forward", "1");
  const router = start(weir, ["up", join(folder, "link.toml")], log);
  await until("the router's page", async () => {
    if (router.exitCode !== null) throw Object.assign(new Error(log.join("")), { final: true });
    const headers = { Authorization: `Bearer ${TOKEN}` };
    const about = await fetch(`http://${WEB}/view/about`, { headers });
    return about.ok && (await about.json()).abilities.reservations;
  });
  const reserve = ({ pid }, ...words) =>
    start("nsenter", ["-t", String(pid), "-n", weir, "reserve", ...words], log);
  const asks = reserve(receiver, "receive", "10.2.0.3:5004");
  const sends = reserve(
    sender,
    ...["send", "10.2.0.3:5004", "--from", "10.1.0.1:4000", "--rate", "2 Mbit/s"],
  );
  await look({ address: `http://${WEB}/#token=${TOKEN}`, asks, log });
  await end(sends, "SIGINT");
  await end(router, "SIGINT");
  await Promise.all([sender, receiver].map((child) => end(child, "SIGKILL")));
  rmSync(folder, { recursive: true });
}

export async function reservations(weir, browser, output) {
  await reserving(weir, (running) => shown(running, browser, output));
}

async function shown({ address, asks, log }, browser, output) {
  const page = await browser.page(address);
  const panel = page.locator(".reservations");
  const row = panel.locator("tbody tr").first();
  await until("the row of the reservation", async () => {
    const first = await cells(row);
    if (/, FF/.test(first[0] ?? "")) return true;
    throw new Error(`${first.join(" | ")} ${log.join("")}`);
  });
  const found = await cells(row);
  must(
    "reservations: flow, receiver, style and class",
    found[0] === "10.1.0.1:4000 → 10.2.0.3:5004udp, FF" &&
      /^2\.00 Mbit\/s.*by 10\.2\.0\.3$/.test(found[1]) &&
      found[2] === "rsvp-10_2_0_3-17-5004-10_1_0_1-4000",
    found.join(" | "),
  );
  const lives = Number.parseFloat(found[3]);
  must("reservations: state lives for up to 157.5 s", lives > 0 && lives <= 157.5, found[3]);
  const wide = await panel.locator(".scroll").evaluate((box) => box.scrollWidth - box.clientWidth);
  must("reservations: they fit the card", wide <= 1, `${wide} pixels are hidden`);
  const events = page.locator(".events");
  await until("the mark of its admission", async () =>
    (await events.innerText()).includes("admitted a reservation"),
  );
  none("reservations: serious findings of axe", await barriers(page));
  await page.screenshot({ path: `${output}/reservations.png`, fullPage: true });
  await end(asks, "SIGINT");
  await until("the row of a flow without reservation", async () =>
    (await cells(row)).includes("not reserved"),
  );
  await until("the mark of its end", async () =>
    (await events.innerText()).includes("tore it down"),
  );
  await bounded(page, panel);
  await page.context().close();
}

/** Lets the page believe that there are many sessions. */
async function bounded(page, panel) {
  let asked = 0;
  await page.route("**/reservations?*", async (route) => {
    asked = Number(new URL(route.request().url()).searchParams.get("limit"));
    const answer = await (await route.fetch()).json();
    const all = answer.reservations;
    all.sessions = 1234;
    all.shown = Array.from({ length: asked }, (_, at) => ({ ...all.shown[0], port: at + 1 }));
    await route.fulfill({ json: answer });
  });
  await until("many rows", async () => (await panel.locator("tbody tr").count()) > 1);
  const drawn = await panel.locator("tbody tr").count();
  const words = await panel.innerText();
  must(
    "reservations: a list of 1234 is bounded",
    asked <= 50 &&
      drawn === asked &&
      words.includes(`and ${(1234 - asked).toLocaleString("en")} more`),
    `${asked} asked, ${drawn} drawn`,
  );
}

async function cells(row) {
  if ((await row.count()) === 0) return [];
  return row.evaluate((one) => [...one.children].map((cell) => cell.textContent));
}
