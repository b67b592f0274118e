// Fork a moment: the state of the link then, and what came after it, with other parameters; the two
// futures drawn over each other.
import { api, type Card, type ClassHistory, type Fork, type Setting } from "../api";
import { choice, h } from "../dom";
import { clock, count, measure, percent, type Field } from "../format";
import type { Store } from "../store";
import { panel } from "./panel";
import { forecast } from "./reacting";
import { TwoCourses } from "./two";

const NAMES: Partial<Record<Field, keyof ClassHistory>> = {
  sent: "sent_bps",
  backlog: "backlog_bytes",
  p99: "p99_us",
  dropped: "dropped_pps",
};
/** The cards to choose from, with what the plan says of each. */
const CARDS: readonly [Card | "", string, string][] = [
  ["", "the line", ""],
  [
    "chain",
    "an old card",
    " The card is an old one: a ring of 128 packets, of which it reports none before all are sent" +
      " (Quadros et al. 2000).",
  ],
  ["packet", "a ring card", " The card has a ring of 128 packets and reports each."],
];

export class ForkView {
  readonly element: HTMLElement;
  private readonly plan = h("p", { class: "plan" });
  private readonly verdict = h("div", { role: "status" });
  private readonly futures: TwoCourses;
  private readonly run: HTMLButtonElement;
  private readonly result: HTMLElement;
  /** Whether senders react. */
  private readonly react: HTMLInputElement;
  private readonly through: HTMLLabelElement;
  private readonly drawn: HTMLElement;
  /** What to do where the moment cannot be forked. */
  private readonly nearest = h("p", { class: "nearest", role: "status", hidden: true });
  private seconds = 30;
  private field: Field = "sent";
  private card: Card | "" = "";
  private fork: Fork | null = null;
  private at = 0;
  private asking = false;
  /** The seconds that the plan speaks of. */
  private described = 0;

  constructor(private readonly store: Store) {
    this.futures = new TwoCourses(store, "Two futures", "recorded", "forked");
    this.run = h(
      "button",
      { class: "primary", onclick: () => void this.ask() },
      "Fork this moment",
    );
    this.drawn = h("div", {}, ...this.futures.elements);
    this.result = h("div", { hidden: true }, this.verdict, this.drawn);
    this.react = h("input", { type: "checkbox", role: "switch", onchange: () => this.describe() });
    this.through = choice(
      "through",
      CARDS.map(([value, name]) => [value, name] as const),
      this.card,
      (value) => {
        this.card = value as Card | "";
        this.describe();
      },
    );
    const measures = (Object.keys(NAMES) as Field[]).map(
      (key) => [key, measure(key).name] as const,
    );
    this.element = panel(
      "Fork a moment into the simulator",
      [
        choice(
          "for",
          [
            ["10", "10 s"],
            ["30", "30 s"],
            ["60", "1 min"],
            ["300", "5 min"],
          ],
          "30",
          (value) => {
            this.seconds = Number(value);
            this.describe();
          },
        ),
        this.through,
        h("label", { class: "switch" }, this.react, "senders react"),
        choice("Measure", measures, this.field, (value) => {
          this.field = value as Field;
          this.draw();
        }),
        this.run,
      ],
      this.plan,
      this.nearest,
      this.result,
    );
    store.on(["look", "pending", "about"], () => this.describe());
    store.on("sample", () => {
      this.offerNearest();
      // A young link keeps less than is chosen, and more of it each second.
      if (this.described !== this.length()) this.describe();
    });
    store.on(["theme", "look"], () => this.draw());
  }

  private moment(): number {
    const { instant, past, kept } = this.store;
    const last = past.t.at(-1) ?? 0;
    const first = Math.max(past.t[0] ?? last, this.earliest(kept));
    return instant ?? Math.max(first, last - this.seconds * 1000);
  }

  /** Returns the seconds that a fork goes on: those chosen, or as many as there were. */
  private length(): number {
    const last = this.store.past.t.at(-1) ?? 0;
    const were = Math.floor((last - this.moment()) / 1000);
    return Math.min(this.seconds, Math.max(1, were));
  }

  /** The ring loses its oldest part while a request is under way. */
  private earliest(kept: number | null): number {
    if (kept === null) return 0;
    const span = (this.store.past.t.at(-1) ?? kept) - kept;
    return kept + (this.store.live ? MARGIN + span / SEGMENTS : 0);
  }

  /** Takes the card with the next fork, and the moment that it is of. */
  take(card: Card): void {
    this.card = card;
    this.react.checked = false;
    const select = this.through.querySelector("select");
    if (select) select.value = card;
    this.describe();
  }

  /** Leads to the nearest moment, where the ring has lost the one that was asked for. */
  private goesToNearest(): HTMLElement | "" {
    const { kept } = this.store;
    if (kept === null || this.at >= kept) return "";
    const to = Math.ceil(this.earliest(kept) / 1000) * 1000;
    return h("button", { onclick: () => this.store.goTo(to) }, `Go to ${clock(to)}`);
  }

  /** Offers the nearest moment that can be forked, where the chosen one cannot. */
  private offerNearest(): void {
    const { instant, kept } = this.store;
    const refused = instant !== null && kept !== null && instant < kept;
    if (refused !== this.nearest.hidden && !refused) return;
    this.nearest.hidden = !refused;
    if (!refused || kept === null) return;
    const to = Math.ceil(this.earliest(kept) / 1000) * 1000;
    const go = h("button", { onclick: () => this.store.goTo(to) }, `Go to ${clock(to)}`);
    this.nearest.replaceChildren(
      `No packet of ${clock(instant ?? 0)} is kept any more, so it cannot be forked. `,
      go,
      " is the nearest moment that can.",
    );
  }

  private describe(): void {
    const able = this.store.about?.abilities.fork ?? false;
    const reacts = this.react.checked;
    const select = this.through.querySelector("select");
    if (select) select.disabled = reacts;
    this.run.disabled = this.asking || !able || (reacts && this.store.settings().length === 0);
    this.offerNearest();
    if (!able) {
      this.plan.textContent =
        "There is no state to go on from: a live link with `ring` in its " +
        "deployment, or a record, has it.";
      return;
    }
    const settings = this.store.settings();
    const length = (this.described = this.length());
    const moment = this.store.instant === null ? `${length} s ago` : `at ${clock(this.moment())}`;
    const shorter =
      length < this.seconds && this.store.live ? ` No more is kept from there on.` : "";
    if (reacts) {
      this.plan.textContent =
        settings.length === 0
          ? "Senders react to a change: choose one under Tune."
          : `From the moment ${moment} on, what the users wanted is simulated for ${length} s ` +
            `with ${list(settings)}, and without.${shorter} The one without is compared with ` +
            "what happened: by so much the other may be wrong.";
      return;
    }
    const same = this.card ? "" : ", which must repeat what happened (choose changes under Tune)";
    const changes =
      settings.length > 0 ? `with ${list(settings)}` : `with no parameter changed${same}`;
    this.plan.textContent =
      `From the state ${moment} the simulator goes on for ${length} s ` +
      `with the packets that really came, ${changes}.${shorter}` +
      (CARDS.find(([value]) => value === this.card)?.[2] ?? "");
  }

  private async ask(): Promise<void> {
    this.asking = true;
    this.run.disabled = true;
    this.result.hidden = false;
    this.verdict.replaceChildren(h("p", { class: "empty" }, "Simulating …"));
    this.at = this.moment();
    const settings = this.store.settings();
    try {
      const direction = this.store.direction?.name ?? "";
      if (this.react.checked) {
        this.fork = null;
        this.drawn.hidden = true;
        const whatif = await api.reacting(direction, this.at, settings, this.length());
        this.verdict.replaceChildren(...forecast(whatif));
        return;
      }
      this.drawn.hidden = false;
      this.fork = await api.fork(
        direction,
        this.at,
        settings,
        this.length(),
        this.card || undefined,
      );
      this.judge(this.fork, settings);
      this.draw();
    } catch (error) {
      this.fork = null;
      this.verdict.replaceChildren(
        h("p", { class: "finding error" }, (error as Error).message),
        this.goesToNearest(),
      );
    } finally {
      this.asking = false;
      this.describe();
    }
  }

  private judge(fork: Fork, settings: Setting[]): void {
    const packets = `${count(fork.packets)} packets`;
    const badge = fork.identical
      ? h("span", { class: "badge good" }, "identical")
      : h("span", { class: "badge" }, "different");
    const words = fork.identical
      ? ` The simulator made the same decision for each of ${packets}.`
      : ` ${packets}.`;
    this.verdict.replaceChildren(
      h("p", { class: "verdict", "data-identical": String(fork.identical) }, badge, words),
      fork.runs ? ran(fork.runs) : "",
      fork.first_difference
        ? h(
            "details",
            { class: "numbers" },
            h("summary", {}, "Where the two futures part"),
            h("p", {}, `${fork.first_difference}.`),
          )
        : "",
      (settings.length > 0 || fork.runs) && fork.open_loop
        ? h(
            "p",
            { class: "muted" },
            "Packets arrive as they did: " +
              "a sender that reacts to loss or delay, as TCP does, would have sent otherwise.",
          )
        : "",
    );
  }

  private draw(): void {
    const { fork } = this;
    const name = NAMES[this.field];
    if (!fork || !name) return;
    this.futures.draw({
      t: fork.t,
      solid: fork.recorded,
      dashed: fork.forked,
      totals: { solid: fork.recorded_totals, dashed: fork.forked_totals },
      field: this.field,
      name,
      marks: [],
      words: `${measure(this.field).name} in two futures from ${clock(this.at)}`,
    });
  }
}

/** How often the scheduler had a choice. */
function ran({ all, contended }: { all: number; contended: number }): HTMLElement {
  const part = contended / Math.max(1, all);
  return h(
    "p",
    { class: "runs" },
    `The card asked the scheduler ${count(all)} times for a packet; in ${percent(part)} of them ` +
      "packets of several classes waited, so that the scheduler had a choice.",
  );
}

/** Milliseconds by which a fork begins later than the ring, beside a segment of the ring: so much
 *  goes at once. */
const MARGIN = 2000;
const SEGMENTS = 16;

const list = (settings: Setting[]): string =>
  settings.map(({ key, value }) => `${key} = ${value || "nothing"}`).join(", ");
