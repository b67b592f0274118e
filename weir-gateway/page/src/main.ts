// The page: asks the server what there is, makes the views, and follows the link.
import { Refusal, api, isOfRuns, keepToken, takeToken, type About, type Sample } from "./api";
import { byId, h, say, text } from "./dom";
import { rate, writeSimulated } from "./format";
import { Health } from "./health";
import { isDark } from "./palette";
import { follow, type ServerEvent } from "./sse";
import { Store, WINDOWS } from "./store";
import { BesideView } from "./views/beside";
import { Choices } from "./views/choices";
import { Detail } from "./views/detail";
import { ForkView } from "./views/fork";
import { HeatMap } from "./views/heat";
import { Loans } from "./views/loans";
import { Log } from "./views/log";
import { MARKS_KEPT, Marks, markOf } from "./views/marks";
import { PacketList } from "./views/packets";
import { PromiseList } from "./views/promises";
import { ReservationList } from "./views/reservations";
import { RunList } from "./views/runs";
import { Tabs } from "./views/tabs";
import { Throughput } from "./views/throughput";
import { Tiles } from "./views/tiles";
import { TimeBar } from "./views/travel";
import { Tour, takeTour } from "./views/tour";
import { Tree } from "./views/tree";
import { Trial } from "./views/trial";
import { Tuning } from "./views/tuning";

/** Milliseconds between two requests for the latest seconds of the history. */
const PAST_PACE = 1000;
/** Milliseconds of history below which charts show a minute. */
const YOUNG = 150_000;
/** Values of a measure fetched at once at most. */
const CHUNK = 60_000;
/** Milliseconds until a lost stream is asked for again. */
const AGAIN = 1500;

const store = new Store();
let marks: Marks;
/** Begins the tour, if the address asked for one. */
let tour: () => Tour;
let stop = new AbortController();
/** The direction and the classes whose history is here. */
let shown = "";

function makeViews(): void {
  const trial = new Trial(store, complain);
  const packets = new PacketList(store);
  const health = new Health(store);
  const promises = new PromiseList(store, health);
  const fork = new ForkView(store);
  marks = new Marks(store);
  new Tree(store, byId("classes"), health);
  const choices = new Choices(store, () => {
    fork.take("chain");
    tabs.show("Fork");
  });
  const delays = new HeatMap(store, (cell) => packets.show(cell));
  const loans = new Loans(store);
  for (const view of [marks, delays, packets, loans]) view.element.classList.add("of-packets");
  const tuning = new Tuning(store, trial, () => tabs.show("Fork"));
  const overview = [
    promises.element,
    new BesideView(store).element,
    new Throughput(store).element,
    delays.element,
    packets.element,
    marks.element,
    new ReservationList(store).element,
    loans.element,
  ];
  const tabs = new Tabs(
    [
      ["Overview", overview],
      ["Tune", [tuning.element, new Log(store, complain).element]],
      ["Fork", [fork.element]],
    ],
    () => store.tell("look"),
  );
  new Tiles(store, byId("tiles"), health, () => {
    tabs.show("Overview");
    promises.toggle();
  });
  byId("side").append(choices.element, new Detail(store).element);
  byId("content").append(new TimeBar(store).element, ...tabs.elements);
  store.on("log", () => void marks.load());
  tour = () =>
    new Tour({
      store,
      tab: (name) => tabs.show(name),
      slowest: () => packets.slowest(),
      oldCard: () => choices.turnOn(),
    });
}

function complain(error: Error): void {
  const close = h("button", { class: "quiet", onclick: () => box.remove() }, "Close");
  const box = h("div", { class: "complaint", role: "alert" }, h("span", {}, error.message), close);
  byId("notice").append(box);
}

function drawHeader(about: About): void {
  document.title = `${about.name} · Weir`;
  text(byId("name"), about.name);
  byId("directions").replaceChildren(
    h(
      "div",
      { class: "segments", role: "group", "aria-label": "Direction" },
      ...about.directions.map((one, at) =>
        h(
          "button",
          {
            "aria-pressed": String(at === store.at),
            onclick: () => void turnTo(at),
            title: `${one.from} to ${one.to}, ${one.scheduler}, ${rate(one.rate_bps)}`,
          },
          one.name,
        ),
      ),
    ),
  );
}

/** The link answers; what is shown may be of before. */
function drawLive(): void {
  drawState("live", store.instant === null ? "live" : "live; you look at the past");
}

function drawState(state: "live" | "lost" | "record", words: string): void {
  const box = byId("state");
  box.className = state;
  text(box, words);
}

function drawTools(): void {
  const button = h("button", {
    class: "quiet",
    onclick: () => {
      const next = isDark() ? "light" : "dark";
      document.documentElement.dataset["theme"] = next;
      localStorage.setItem("weir-theme", next);
      dressed();
    },
  });
  const dressed = () => {
    text(button, isDark() ? "Light" : "Dark");
    if (store.about) store.take(store.about, store.at);
    store.tell("theme");
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", dressed);
  const back = isOfRuns() && h("a", { class: "quiet", href: "/" }, "All runs");
  byId("tools").replaceChildren(...(back ? [back, button] : [button]));
  dressed();
}

/** Shows another direction. */
async function turnTo(at: number): Promise<void> {
  if (!store.about) return;
  store.pending.clear();
  store.instant = null;
  stop.abort();
  await begin(store.about, at);
}

/** Takes what the server says of the link, and its history. */
async function begin(about: About, at: number): Promise<void> {
  writeSimulated(about.kind === "report");
  document.body.dataset["kind"] = about.kind;
  store.take(about, at);
  drawHeader(about);
  const direction = store.direction;
  if (!direction) return complain(new Error("There is no direction to show."));
  const chunk = 1000 * Math.min(300, Math.max(30, Math.floor(CHUNK / store.names.length)));
  const recent = store.live ? { from: about.now - chunk } : {};
  const known = `${direction.name} ${store.names.join()}`;
  if (known !== shown) {
    store.past.reset(store.names, await api.history(direction.name, recent), store.live);
    shown = known;
  }
  if (store.live && about.now - about.from < YOUNG) store.window = WINDOWS[0] ?? store.window;
  if (!store.live && store.instant === null) store.openRecord();
  store.refresh();
  store.tell("about");
  store.tell("past");
  store.tell("look");
  store.tell("pending");
  store.tell("sample");
  await marks.load();
  stop.abort();
  stop = new AbortController();
  if (!store.live) return drawState("record", about.kind);
  void listen(direction.name, stop.signal);
  void lookBack(direction.name, about.from, chunk, stop.signal);
}

/** Fetches the older history in parts, so that a page with many classes is there at once. */
async function lookBack(
  direction: string,
  oldest: number,
  chunk: number,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    const first = store.past.t[0];
    if (first === undefined || first <= oldest + 1000) return;
    try {
      const older = await api.history(direction, { from: first - chunk, to: first - 1 });
      if (signal.aborted) return;
      store.past.prepend(store.names, older);
      store.tell("past");
    } catch {
      return;
    }
    if (store.past.t[0] === first) return;
  }
}

/** Follows the stream of a direction until another one is shown. */
async function listen(direction: string, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      const response = await api.stream(direction, signal);
      drawLive();
      await follow(response, (event) => heard(event));
    } catch (error) {
      if (error instanceof Refusal && error.status === 401) return askToken(error.message);
    }
    if (signal.aborted) return;
    drawState("lost", "the link does not answer; trying again");
    await new Promise((done) => setTimeout(done, AGAIN));
  }
}

function heard({ event, data }: ServerEvent): void {
  if (event === "sample") {
    const sample = JSON.parse(data) as Sample;
    drawLive();
    if (sample.kept !== undefined) store.kept = sample.kept;
    if (store.instant === null) {
      store.now.sample(sample, store.parents);
      store.tell("sample");
    }
  } else if (event === "about") {
    void renew();
  } else if (event === "gone") {
    drawState("lost", "the link does not answer");
  } else if (event === "event") {
    const mark = markOf(JSON.parse(data) as Record<string, unknown>);
    store.marks = [...store.marks, mark].slice(-MARKS_KEPT);
    store.tell("marks");
    if (/policy-changed|rolled-back|confirmed/.test(data)) store.tell("log");
  }
}

/** Asks anew what there is, because the policy changed. */
async function renew(): Promise<void> {
  try {
    await begin(await api.about(), store.at);
    say("The policy changed.");
  } catch (error) {
    complain(error as Error);
  }
}

/** Fetches the latest seconds again and again while the page is visible. */
async function keepUp(): Promise<void> {
  const direction = store.direction;
  if (!direction || !store.live || document.hidden) return;
  const last = store.past.t.at(-1);
  try {
    const fresh = await api.history(direction.name, last === undefined ? {} : { from: last - 100 });
    if (direction !== store.direction) return;
    store.past.merge(store.names, fresh);
    store.tell("past");
  } catch {
    /* The stream says that the link does not answer. */
  }
}

function askToken(why: string): void {
  const field = h("input", {
    type: "password",
    "aria-label": "Token",
    autocomplete: "off",
    placeholder: "token",
  });
  const form = h(
    "form",
    {
      class: "complaint",
      onsubmit: (event: Event) => {
        event.preventDefault();
        keepToken(field.value);
        location.reload();
      },
    },
    h("span", {}, `${why} Open the address that \`weir view NAME\` prints, or enter the token:`),
    field,
    h("button", { class: "primary" }, "Open"),
  );
  byId("notice").replaceChildren(form);
  field.focus();
}

async function start(): Promise<void> {
  takeTour();
  takeToken();
  drawTools();
  try {
    const about = await api.about();
    if (about.kind === "runs") return await listRuns(about);
    makeViews();
    await begin(about, 0);
  } catch (error) {
    if (error instanceof Refusal && error.status === 401) return askToken(error.message);
    return complain(error as Error);
  }
  tour();
  setInterval(() => void keepUp(), PAST_PACE);
}

/** Shows many runs in place of one. */
async function listRuns(about: About): Promise<void> {
  document.body.dataset["kind"] = about.kind;
  document.title = `${about.name} · Weir`;
  text(byId("name"), about.name);
  const list = new RunList(await api.runs());
  byId("content").append(...list.elements);
  store.on("theme", () => list.draw());
  drawState("record", "runs");
}

void start();
