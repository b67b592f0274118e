// How often the scheduler had a choice: QoStat's own figure, and what an old card makes of it.
import { api, type Fork } from "../api";
import { h, set, text } from "../dom";
import { count, delay, percent } from "../format";
import type { Store } from "../store";
import { panel } from "./panel";

/** Seconds that the old card is tried for. */
const SECONDS = 10;
/** Milliseconds between two pictures: quicker ones cannot be read. */
const PACE = 1000;
/** The parts of the bar: classes that had packets, what that means, and the style's name. */
const PARTS = [
  ["none", "none: the line was free"],
  ["one", "one class: no choice"],
  ["more", "several classes: the scheduler chose"],
] as const;

export class Choices {
  readonly element: HTMLElement;
  private readonly bar = h("div", { class: "choice-bar", role: "img" });
  private readonly pieces = PARTS.map(([part]) => h("i", { class: part }));
  private readonly words = h("p");
  private readonly old = h("p", { class: "runs", role: "status" });
  private readonly card: HTMLInputElement;
  private readonly more: HTMLButtonElement;
  private drawn = 0;

  constructor(
    private readonly store: Store,
    /** Shows both futures of the fork. */
    onmore: () => void,
  ) {
    this.bar.append(...this.pieces);
    this.card = h("input", { type: "checkbox", role: "switch", onchange: () => void this.ask() });
    this.more = h(
      "button",
      { class: "quiet", hidden: true, onclick: onmore },
      "Compare with what was",
    );
    this.element = panel(
      "Does the scheduler have a choice?",
      [h("label", { class: "switch" }, this.card, "simulate an old card behind it")],
      h("div", { class: "choice-body" }, this.bar, this.words, this.old, this.more),
    );
    this.element.classList.add("choices", "of-packets");
    store.on("sample", () => {
      if (performance.now() - this.drawn >= PACE) this.draw();
    });
    store.on(["about", "look"], () => this.draw());
  }

  /** Turns the old card on. */
  turnOn(): void {
    if (this.card.checked) return;
    this.card.checked = true;
    void this.ask();
  }

  private draw(): void {
    this.drawn = performance.now();
    const { found } = this.store.now;
    this.card.disabled = !(this.store.about?.abilities.fork ?? false);
    this.bar.hidden = !found;
    if (!found) {
      const is = this.store.live
        ? "The link counts this for the present only."
        : "A record does not count it; the switch counts it for the traffic of the record.";
      return text(this.words, is);
    }
    const all = Math.max(1, found[0] + found[1] + found[2]);
    this.pieces.forEach((piece, at) => {
      piece.style.width = `${(100 * (found[at] ?? 0)) / all}%`;
    });
    const part = (at: 0 | 1 | 2) => percent(found[at] / all);
    const words =
      `When the line was free for a packet, several classes had one: ${part(2)} of the time; only ` +
      `then does the scheduler choose. One class: ${part(1)}, none: ${part(0)}.`;
    text(this.words, words);
    set(this.bar, "aria-label", words);
    set(this.bar, "title", PARTS.map(([, meaning]) => meaning).join("; "));
  }

  /** Asks the simulator what the last seconds had been behind an old card. */
  private async ask(): Promise<void> {
    this.more.hidden = true;
    if (!this.card.checked) return text(this.old, "");
    const { store } = this;
    text(this.old, "Simulating the last seconds behind an old card …");
    const last = store.instant ?? store.past.t.at(-1) ?? 0;
    const from = Math.max(store.kept ?? 0, last - SECONDS * 1000);
    try {
      const direction = store.direction?.name ?? "";
      this.tell(await api.fork(direction, from, [], SECONDS, "chain"));
      this.more.hidden = false;
    } catch (error) {
      text(this.old, (error as Error).message);
    }
  }

  private tell(fork: Fork): void {
    const { runs } = fork;
    if (!runs) return;
    const part = percent(runs.contended / Math.max(1, runs.all));
    text(
      this.old,
      `Behind a card of 1998, which takes packets in chains, the same ${SECONDS} s would have asked ` +
        `the scheduler ${count(runs.all)} times, and several classes had packets in ${part} of ` +
        `them. ${suffers(fork)}`,
    );
  }
}

/** Says which class's packets would have waited longest in comparison. */
function suffers({ recorded_totals: was, forked_totals: is }: Fork): string {
  let [worst, ratio] = ["", 1.2];
  for (const [name, { delay_mean_us: after }] of Object.entries(is)) {
    const before = was[name]?.delay_mean_us;
    if (!before || !after || after / before <= ratio) continue;
    [worst, ratio] = [name, after / before];
  }
  const mean = (of: Fork["recorded_totals"]) => delay(of[worst]?.delay_mean_us);
  return worst
    ? `${worst}'s packets would have waited ${mean(is)} on average, and not ${mean(was)}.`
    : "No class's packets would have waited much longer.";
}
