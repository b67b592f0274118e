// The bar of time: follow the present, or go back to any instant that is shown. A line below it says
// which part of it can be forked and looked into packet by packet.
import { h, set, text } from "../dom";
import { clock, span } from "../format";
import { WINDOWS, type Store } from "../store";

/** Keys that move by so many milliseconds. */
const STEPS: Record<string, number> = {
  ArrowLeft: -1000,
  ArrowDown: -1000,
  ArrowRight: 1000,
  ArrowUp: 1000,
  PageDown: -10_000,
  PageUp: 10_000,
};

export class TimeBar {
  readonly element: HTMLElement;
  private readonly slider: HTMLInputElement;
  private readonly live: HTMLButtonElement;
  private readonly shown = h("output", { class: "instant" });
  private readonly kept = h("i");
  private readonly track: HTMLElement;
  private readonly words = h("span", { class: "muted kept-words" });
  private windows: HTMLButtonElement[] = [];
  private lengths: number[] = [];
  private readonly segments = h("div", {
    class: "segments",
    role: "group",
    "aria-label": "Time shown",
  });

  constructor(private readonly store: Store) {
    this.slider = h("input", {
      type: "range",
      min: 0,
      max: 1000,
      value: 1000,
      step: "any",
      "aria-label": "Instant",
      oninput: () => this.scrub(),
      onkeydown: (event: KeyboardEvent) => this.key(event),
    });
    this.live = h("button", { class: "live", onclick: () => store.goTo(null) });
    this.track = h("div", { class: "kept", "aria-hidden": "true" }, this.kept);
    this.element = h(
      "div",
      { class: "timebar panel", role: "group", "aria-label": "Time" },
      this.live,
      h("div", { class: "bar" }, this.slider, this.track, this.words),
      this.shown,
      this.segments,
    );
    store.on("about", () => this.offer());
    store.on(["sample", "past", "look", "about"], () => this.draw());
  }

  /** Offers lengths of time; of a record also the whole of it. */
  private offer(): void {
    const { store } = this;
    const { from = 0, to = 0 } = store.about ?? {};
    const whole = Math.max(1000, to - from);
    this.lengths = store.live ? [...WINDOWS] : [...WINDOWS.filter((ms) => ms < whole), whole];
    if (!this.lengths.includes(store.window)) store.window = this.lengths.at(-1) ?? whole;
    this.windows = this.lengths.map((ms) =>
      h(
        "button",
        {
          onclick: () => {
            store.window = ms;
            store.tell("look");
          },
        },
        !store.live && ms === whole ? "all" : span(ms),
      ),
    );
    this.segments.replaceChildren(...this.windows);
  }

  /** Returns the instants at both ends of the bar: those of the window, or of an older instant. */
  private ends(): [number, number] {
    const { past, window, instant } = this.store;
    const [first, last] = [past.t[0] ?? 0, past.t.at(-1) ?? 0];
    const from = Math.min(last - window, instant ?? last);
    return [Math.max(first, from), last];
  }

  private scrub(): void {
    const [first, last] = this.ends();
    this.go(first + (this.slider.valueAsNumber / 1000) * (last - first));
  }

  private go(at: number): void {
    const column = this.store.past.nearest(at);
    if (column >= 0) this.store.goTo(this.store.past.t[column] ?? null);
  }

  /** Moves by seconds, to the beginning, or to the present. */
  private key(event: KeyboardEvent): void {
    const { store } = this;
    const last = store.past.t.at(-1) ?? 0;
    const step = STEPS[event.key];
    if (step !== undefined) {
      const to = (store.instant ?? last) + step;
      if (to >= last) store.goTo(null);
      else this.go(to);
    } else if (event.key === "Home") {
      this.go(this.ends()[0]);
    } else if (event.key === "End") {
      store.goTo(null);
    } else {
      return;
    }
    event.preventDefault();
  }

  private draw(): void {
    const { store } = this;
    const following = store.instant === null;
    text(this.live, store.live ? (following ? "Live" : "Back to live") : "To the end");
    this.live.classList.toggle("on", following && store.live);
    set(this.live, "aria-pressed", String(following));
    this.windows.forEach((button, at) =>
      set(button, "aria-pressed", String(this.lengths[at] === store.window)),
    );
    const [first, last] = this.ends();
    const at = store.instant ?? last;
    this.slider.value = String(last > first ? (1000 * (at - first)) / (last - first) : 1000);
    const instant = store.instant ?? store.now.t;
    text(this.shown, Number.isFinite(instant) ? clock(instant) : "");
    this.shown.dataset["t"] = String(store.now.t);
    this.drawKept(first, last, at);
  }

  /** Draws since when single packets are known. */
  private drawKept(first: number, last: number, at: number): void {
    const { store } = this;
    const { kept } = store;
    const isKept = kept !== null && at >= kept;
    const part = kept === null ? 1 : Math.min(1, Math.max(0, (kept - first) / (last - first || 1)));
    this.kept.style.left = `${100 * part}%`;
    this.kept.hidden = kept === null;
    const none = store.tellsPackets
      ? "no packets are kept, so no fork: set `ring` in the deployment"
      : "";
    const length = last - (kept ?? 0);
    const latest = length < 1000 ? "nothing yet" : `the last ${span(length)}`;
    const whole = kept !== null && kept <= first ? "any moment" : latest;
    text(this.words, kept === null ? none : `can be forked and looked into: ${whole}`);
    const where = isKept ? "packets are known" : "figures only";
    set(this.slider, "aria-valuetext", store.instant === null ? "now" : `${clock(at)}, ${where}`);
    set(this.track, "title", this.words.textContent ?? "");
  }
}
