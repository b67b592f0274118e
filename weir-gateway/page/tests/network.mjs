// Private networks, a link between them, and traffic through it. All of it ends with this process.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { get } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Says that this process is in its own network. */
const INSIDE = "WEIR_PAGE_TEST_INSIDE";

/** Returns once this process is in a network of its own: runs the program of this address again in
 *  one, and exits as that does. */
export function enterNetwork(program) {
  if (process.env[INSIDE] !== "1") {
    const words = [process.execPath, fileURLToPath(program), ...process.argv.slice(2)];
    const again = ["--pdeathsig", "KILL", "unshare", "-n", ...words];
    const env = { ...process.env, [INSIDE]: "1" };
    const { status, error } = spawnSync("setpriv", again, { stdio: "inherit", env });
    if (error) console.error(`cannot make a private network: ${error.message}`);
    process.exit(status ?? 2);
  }
  spawnSync("ip", ["link", "set", "lo", "up"]);
}

/** What is run here and ends with this process. */
const children = new Set();

/** Starts a program, which ends with this process; `log` collects what it prints. */
export function start(program, args, log = []) {
  const lasting = ["--pdeathsig", "KILL", program, ...args];
  const child = spawn("setpriv", lasting, { stdio: ["ignore", "pipe", "pipe"] });
  children.add(child);
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => log.push(chunk.toString()));
  }
  child.on("exit", () => children.delete(child));
  child.on("error", (error) => log.push(`${program}: ${error.message}\n`));
  return child;
}

/** Starts a program that serves a page; returns it and the address. */
export async function served(program, args, limit = 60_000) {
  const log = [];
  const child = start(program, args, log);
  const address = await until(
    "an address of the page",
    () => {
      if (child.exitCode !== null) throw Object.assign(new Error(log.join("")), { final: true });
      return /http:\S+/.exec(log.join(""))?.[0];
    },
    limit,
  );
  return { child, address };
}

/** Ends a program and waits until it has ended. */
export function end(child, signal = "SIGTERM") {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((done) => {
    child.once("exit", done);
    child.kill(signal);
  });
}

/** Ends everything that was started. */
export async function endAll() {
  await Promise.all([...children].map((child) => end(child, "SIGINT")));
}

export function run(program, ...args) {
  const { status, stderr } = spawnSync(program, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")}: ${stderr}`);
}

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** Waits until `probe` returns something, and returns it; fails after `limit` milliseconds. */
export async function until(what, probe, limit = 15_000) {
  const begin = Date.now();
  let why = "";
  while (Date.now() - begin < limit) {
    try {
      const found = await probe();
      if (found) return found;
    } catch (error) {
      if (error.final) throw error;
      why = `: ${error.message}`;
    }
    await pause(100);
  }
  throw new Error(`${what}: not within ${limit / 1000} s${why}`);
}

let links = 0;

/** A client, a link and a server, each in a network of its own. */
export class Link {
  constructor(weir, policy, { secure = false, ring = "32 MiB", tables = "" } = {}) {
    this.weir = weir;
    this.ring = ring;
    this.tables = tables;
    this.scheme = secure ? "https" : "http";
    this.number = ++links;
    this.folder = mkdtempSync(join(tmpdir(), "weir-page-"));
    this.name = `page-${process.pid}-${this.number}`;
    this.web = `127.0.0.1:${8400 + 2 * this.number}`;
    this.tokens = { change: "c".repeat(40), read: "r".repeat(40) };
    this.log = [];
    this.others = [];
    this.write("token", this.tokens.change);
    this.write("token-read", this.tokens.read);
    this.write("policy.toml", policy);
    if (secure) this.certify();
    this.write("link.toml", deployment(this));
  }

  /** Makes a certificate that nobody else trusts. */
  certify() {
    const [key, certificate] = ["weir.key", "weir.pem"].map((name) => join(this.folder, name));
    const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc"];
    const names = ["-subj", "/CN=weir", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"];
    run("openssl", "req", "-x509", ...curve, ...names, "-keyout", key, "-out", certificate);
  }

  write(name, text) {
    writeFileSync(join(this.folder, name), text, { mode: 0o600 });
  }

  /** Makes the networks and starts the link; returns when its page answers. */
  async up() {
    const { number } = this;
    [this.client, this.server] = [1, 2].map(() => start("unshare", ["-n", "sleep", "3600"]));
    await until("networks of their own", () => [this.client, this.server].every(apart));
    const ends = [
      ["lan", this.client, "192.0.2.1"],
      ["wan", this.server, "192.0.2.2"],
    ];
    for (const [side, { pid }, address] of ends) {
      run(
        "ip",
        "link",
        "add",
        `${side}${number}`,
        "type",
        "veth",
        "peer",
        "name",
        "eth0",
        "netns",
        String(pid),
      );
      run("ip", "link", "set", `${side}${number}`, "up");
      const inside = ["-t", String(pid), "-n", "ip"];
      run("nsenter", ...inside, "address", "add", `${address}/24`, "dev", "eth0");
      run("nsenter", ...inside, "link", "set", "eth0", "up");
      run("nsenter", ...inside, "link", "set", "lo", "up");
    }
    this.bridge = start(this.weir, ["up", join(this.folder, "link.toml")], this.log);
    await until("the link's page", async () => {
      if (this.bridge.exitCode !== null) {
        throw Object.assign(new Error(this.log.join("")), { final: true });
      }
      return this.serves();
    });
    return this;
  }

  /** Returns whether the page answers; the certificate is checked. */
  serves() {
    if (this.scheme === "http") return fetch(`http://${this.web}/`).then(({ ok }) => ok);
    const ca = readFileSync(join(this.folder, "weir.pem"));
    return new Promise((done, failed) => {
      get(`https://${this.web}/`, { ca }, (answer) => {
        answer.resume();
        done(answer.statusCode === 200);
      }).on("error", failed);
    });
  }

  /** Lets the client send to these ports: rates in Mbit/s by port. */
  send(rates, size = 1000) {
    const inside = ({ pid }) => ["-t", String(pid), "-n", this.weir];
    const ports = Object.keys(rates).flatMap((port) => ["--port", port]);
    this.receiver = start("nsenter", [
      ...inside(this.server),
      "recv",
      "--udp",
      "--seconds",
      "3000",
      "--streams",
      "60000",
      ...ports,
    ]);
    this.senders = Object.entries(rates).map(([port, rate]) =>
      start(
        "nsenter",
        [
          ...inside(this.client),
          "send",
          "192.0.2.2",
          "cbr",
          `rate=${rate} Mbit/s`,
          `size=${size} B`,
          "jitter=5 %",
          "--dport",
          port,
          "--seconds",
          "3000",
        ],
        this.log,
      ),
    );
  }

  /** Starts a program that ends with the link. */
  run(program, args) {
    this.others.push(start(program, args, this.log));
  }

  /** Asks the server as a program would. */
  async ask(path, body) {
    const headers = { Authorization: `Bearer ${this.tokens.change}` };
    const options =
      body === undefined
        ? { headers }
        : {
            method: "POST",
            headers: { ...headers, "Content-Type": "application/json" },
            body: JSON.stringify(body),
          };
    const response = await fetch(`http://${this.web}${path}`, options);
    const text = await response.text();
    if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
    return JSON.parse(text);
  }

  /** Returns the address of the page, with a token. */
  address(token = this.tokens.change) {
    return `${this.scheme}://${this.web}/#token=${token}`;
  }

  async down() {
    const ends = [
      ...this.others,
      ...(this.senders ?? []),
      ...(this.receiver ? [this.receiver] : []),
    ];
    await Promise.all(ends.map((child) => end(child)));
    await end(this.bridge, "SIGINT");
    await Promise.all([this.client, this.server].map((child) => end(child, "SIGKILL")));
    rmSync(this.folder, { recursive: true });
  }
}

/** Returns whether a process has a network of its own. */
function apart({ pid }) {
  return readlinkSync(`/proc/${pid}/ns/net`) !== readlinkSync("/proc/self/ns/net");
}

function deployment(link) {
  const { name, number, web } = link;
  const secure = link.scheme === "https";
  return `[deployment]
name = "${name}"
ports = { inside = "lan${number}", outside = "wan${number}" }
control = "${join(link.folder, "control.sock")}"
web = "${web}"
ring = "${link.ring}"
wait = "block"

[deployment.api]
listen = "127.0.0.1:${8401 + 2 * number}"
token_file = "token"
read_token_file = "token-read"
${secure ? 'certificate = "weir.pem"\nkey = "weir.key"' : ""}

[direction.upload]
from = "inside"
to = "outside"
policy = "policy.toml"
${link.tables}`;
}
