// The parts of the page that compute, without a browser.
import { build } from "esbuild";
import { deepEqual, equal, ok } from "node:assert/strict";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Loads a module of the page's source. */
async function load(name) {
  const root = join(dirname(fileURLToPath(import.meta.url)), "..");
  const made = await build({
    absWorkingDir: root,
    entryPoints: [`src/${name}.ts`],
    bundle: true,
    write: false,
    format: "esm",
    target: "es2022",
  });
  const text = Buffer.from(made.outputFiles[0].text).toString("base64");
  return import(`data:text/javascript;base64,${text}`);
}

export async function units() {
  await values();
  await events();
  await knobs();
  await columns();
  await colours();
  await judged();
  await heat();
  await opened();
}

/** A record opens at the last moment at which the line was used. */
async function opened() {
  const { Store } = await load("store");
  const at = (sent) => {
    const store = new Store();
    store.about = { kind: "record", directions: [{ classes: [{ name: "a", leaf: true }] }] };
    store.names = ["a"];
    const t = sent.map((_, i) => i * 1000);
    const classes = { a: { sent_bps: sent } };
    store.past.reset(store.names, { t, classes }, false);
    store.openRecord();
    return store.instant;
  };
  equal(at([9, 9, 9, 9]), null, "at its end");
  equal(at([9, 9, 9, 0, 0]), 2000, "before a silence at its end");
  equal(at([0, 0]), null, "at the end where nothing was sent");
}

async function values() {
  const { rate, bytes, delay, pps } = await load("format");
  const rows = [
    [rate(999_600), "1.00 Mbit/s"],
    [rate(12_345_678), "12.3 Mbit/s"],
    [rate(0.2), "0 bit/s"],
    [rate(NaN), "–"],
    [bytes(1536), "1.50 KiB"],
    [delay(96_400), "96.4 ms"],
    [delay(0.25), "0.25 µs"],
    [pps(2500), "2.50 k/s"],
    [pps(3), "3.00/s"],
  ];
  for (const [written, expected] of rows) equal(written, expected);
}

async function events() {
  const { EventParser } = await load("sse");
  const parser = new EventParser();
  deepEqual(parser.push("event: sample\nda"), []);
  const [first] = parser.push('ta: {"t":1}\n\n: a comment\n\n');
  deepEqual(first, { event: "sample", data: '{"t":1}' });
  deepEqual(parser.push("data: a\r\ndata: b\r\n\r\n"), [{ event: "message", data: "a\nb" }]);
}

async function knobs() {
  const { rangeOf, readNumber, written } = await load("views/knob");
  const knob = (unit, number, more = {}) => ({ unit, number, min: null, max: null, ...more });
  const reads = [
    ["14 Mbit/s", "bit/s", 14e6],
    ["5 ms", "s", 0.005],
    ["64 KiB", "bytes", 65536],
    ["50 packets", "packets", 50],
    ["25 %", "1", 0.25],
    ["much", "bit/s", null],
  ];
  for (const [text, unit, expected] of reads) equal(readNumber(text, unit), expected, text);
  const writes = [
    [1_234_567, knob("bit/s", 1e6), "1.23 Mbit/s"],
    [0.0123, knob("s", 0.1), "12.3 ms"],
    [49.6, knob("packets", 50), "50 packets"],
    [3.4, knob("", 3, { min: 0 }), "3"],
    [0.254, knob("1", 0.5, { value: "50 %" }), "25.4 %"],
  ];
  for (const [value, of, expected] of writes) equal(written(value, of), expected);
  for (const of of [knob("bit/s", 8e6, { min: 1 }), knob("", 3, { min: 0, max: 7 })]) {
    const range = rangeOf(of, 20e6);
    ok(Math.abs(range.fromPlace(range.toPlace(of.number)) / of.number - 1) < 1e-9);
    ok(range.fromPlace(1) <= 20e6 && range.fromPlace(0) >= (of.min ?? 0));
  }
}

async function columns() {
  const { Past, Now } = await load("columns");
  const history = (t, values) => ({
    t,
    classes: { a: { sent_bps: values } },
    drops: { a: { full: t.map(() => 2) } },
    loans: [],
  });
  const past = new Past();
  past.reset(["a", "b"], history([3000, 4000], [3, 4]), true);
  past.merge(["a", "b"], history([4000, 5000], [40, null]));
  past.prepend(["a", "b"], history([1000, 2000, 3000], [1, 2, 30]));
  deepEqual(past.t, [1000, 2000, 3000, 4000, 5000]);
  deepEqual(
    past.t.map((_, i) => past.value(0, "sent", i)),
    [1, 2, 3, 40, NaN],
  );
  equal(past.dropped("a", 0, 9000, 1000).get("full"), 10);
  equal(past.nearest(2400), 1);
  for (let t = 6000; t < 3_000_000; t += 1000) past.merge(["a", "b"], history([t], [t]));
  ok(past.t.length <= 960 && past.value(0, "sent", past.t.length - 1) === 2_999_000);
  const fine = new Past();
  const hundred = [100, 200, 300, 400, 500, 600, 700, 800];
  fine.reset(["a"], { t: hundred, classes: { a: { sent_bps: [0, 0, 0, 1, 2, 3, 4, 5] } } }, false);
  const half = new Now();
  half.column(fine, 7, [null]);
  equal(half.value(0, "sent"), 3, "a figure covers half a second");
  const now = new Now();
  const rows = [null, [1, 2, 3, 4, 5, 6, 7], [10, 20, 30, 40, 50, 60, 70]];
  now.sample({ t: 1, classes: rows }, [null, 0, 0]);
  deepEqual(
    ["sent", "p99", "dropped"].map((field) => now.value(0, field)),
    [11, 50, 66],
  );
}

/** Promises and marks. */
async function judged() {
  const { judge, lostInTrouble, markOf, Level } = await load("judge");
  const values = { sent: 4e6, offered: 5e6, p50: 2000, p99: 14_200, backlog: 0, dropped: 10 };
  const at = (name) => (name === "a" ? 0 : -1);
  const check = (metric, comparison, goal, more, state, part) => {
    const promise = { that: "", under: null, class: "a", metric, comparison, goal, part_of: null };
    const found = judge(promise, at, (_, field) => ({ ...values, ...more })[field]);
    equal(found.state, state, `${metric} ${comparison} ${goal}`);
    ok(found.words.includes(part), `${found.words} has ${part}`);
  };
  check("delay.p99", "<=", 10_000, {}, "broken", "a takes (p99) 14.2 ms, 4.20 ms too long");
  check("delay.p99", "<=", 15_000, {}, "kept", "");
  check("delay.p99", "<", 15_000, { p99: NaN }, "unknown", "");
  check("rate", ">=", 4.5e6, {}, "broken", "a gets 4.00 Mbit/s, 500 kbit/s too little");
  check("rate", ">=", 4.5e6, { offered: 4e6 }, "kept", "");
  check("loss", "<=", 0.1, {}, "broken", "a loses 20.0 %");
  check("loss", "<=", 0.1, { dropped: 0 }, "kept", "");
  const one = { name: "a", leaf: true, share_bps: 6e6, ceiling_bps: null, parent: null };
  const lost = (offered, reason) => lostInTrouble(one, offered, new Map([[reason, 7]]));
  deepEqual(
    [lost(5e6, "full"), lost(9e6, "full"), lost(5e6, "early")],
    [7, 0, 0],
    "only what is within its share and not meant is trouble",
  );
  const unknown = { ...one, share_bps: null };
  equal(lostInTrouble(unknown, 5e6, new Map([["full", 7]])), 0, "a share that is not known");
  equal(markOf(unknown, [], (field) => ({ ...values, sent: 1e6 })[field], 0).level, Level.Short);
  const level = (more, lost) =>
    markOf(one, [], (field) => ({ ...values, ...more })[field], lost).level;
  equal(level({}, 7), Level.Trouble);
  equal(level({ sent: 3e6 }, 0), Level.Short);
  equal(level({ offered: 4e6 }, 0), Level.Well);
  equal(level({ sent: 0, offered: 0 }, 0), Level.Idle);
  equal(level({ offered: NaN }, 0), Level.Idle, "what is not known is not well");
  const own = judge(
    {
      that: "",
      under: null,
      class: "a",
      metric: "rate",
      comparison: ">=",
      goal: 3.9e6,
      part_of: null,
    },
    at,
    (_, field) => values[field],
  );
  equal(markOf(one, [own], (field) => values[field], 0).figure, "4 of 3.9 Mbit/s");
}

async function heat() {
  const { part } = await load("views/heat");
  deepEqual([part(1, 1), part(1, 1e6), part(1e6, 1e6)], [0, 0, 1], "one packet is few");
  ok(part(100, 1e4) === 0.5);
}

async function colours() {
  globalThis.matchMedia = () => ({ matches: false });
  globalThis.document = { documentElement: { dataset: {} } };
  const { colours } = await load("palette");
  const of = (parents) => colours(parents.map((parent, i) => ({ parent, leaf: i > 0 })));
  const [, one, two, three, four] = of([null, 0, 0, 1, 1]);
  ok(one !== two && three !== four, "classes of one parent differ");
  equal(of([null, 0, 0])[1], "#0072b2", "below one root each class has a hue");
  const few = of([null, 0, 0, 1, 1]).slice(1);
  equal(new Set(few).size, few.length, "a few leaves have a hue each");
}
