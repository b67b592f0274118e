// A line whose rate varies: the page says its rate, how long frames wait behind it, and why.
import { Link, until } from "./network.mjs";
import { must } from "./report.mjs";

const POLICY = `[link]
rate = "2 Mbit/s"
scheduler = "drr"

[class.rest]
default = true
`;
const VARIES = `
[direction.upload.autorate]
min = "2 Mbit/s"
base = "5 Mbit/s"
max = "20 Mbit/s"
`;

export async function varying(weir, browser) {
  const link = await new Link(weir, POLICY, { ring: "8 MiB", tables: VARIES }).up();
  const page = await browser.page(link.address());
  const tile = page.locator(".tile.line");
  // Datagrams tell nothing.
  link.send({ 5099: 3 });
  const says = async (words) => (await tile.innerText()).includes(words);
  await until(
    "a blind line",
    async () => (await says("5.00 Mbit/s")) && (await says("nothing tells")),
  );
  must("varying: a line that nothing tells of is at its base", await says("5.00 Mbit/s"));
  const sent = page.locator(".tile", { hasText: "Sent" });
  await until("a part of the rate", async () =>
    (await sent.innerText()).includes("of 5.00 Mbit/s"),
  );
  // Connections do, and a load raises the rate.
  const inside = (child) => ["-t", String(child.pid), "-n", weir];
  const receiver = ["recv", "--seconds", "3000"];
  link.run("nsenter", [...inside(link.server), ...receiver]);
  link.run("nsenter", [...inside(link.client), "send", "192.0.2.2", "tcp", "--seconds", "3000"]);
  await until(
    "a delay",
    async () => /\d ms behind of 15 \(.*flows/.test(await tile.innerText()),
    60_000,
  );
  must("varying: the delay behind the link and the reason are told", await says("behind of 15"));
  await until("a rate above the base", async () => {
    const found = /([\d.]+) Mbit\/s/.exec(await tile.innerText());
    return Number(found?.[1]) > 5.5;
  });
  must("varying: the rate follows the load", true);
  await page.context().close();
  await link.down();
}
