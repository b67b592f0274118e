// The bar of time: follow the present, or go back to any instant of the history.
import { h, set, text } from "../dom";
import { clock, span } from "../format";
import { WINDOWS, type Store } from "../store";

export class TimeBar {
  readonly element: HTMLElement;
  private readonly slider: HTMLInputElement;
  private readonly live: HTMLButtonElement;
  private readonly shown = h("output", { class: "instant" });
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
    });
    this.live = h("button", { class: "live", onclick: () => store.goTo(null) });
    this.element = h(
      "div",
      { class: "timebar panel", role: "group", "aria-label": "Time" },
      this.live,
      this.slider,
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

  private scrub(): void {
    const { t } = this.store.past;
    const [first, last] = [t[0] ?? 0, t.at(-1) ?? 0];
    const at = first + (this.slider.valueAsNumber / 1000) * (last - first);
    const column = this.store.past.nearest(at);
    if (column >= 0) this.store.goTo(t[column] ?? null);
  }

  private draw(): void {
    const { store } = this;
    const { t } = store.past;
    const following = store.instant === null;
    text(this.live, store.live ? (following ? "Live" : "Back to live") : "To the end");
    this.live.classList.toggle("on", following && store.live);
    set(this.live, "aria-pressed", String(following));
    this.windows.forEach((button, at) =>
      set(button, "aria-pressed", String(this.lengths[at] === store.window)),
    );
    const [first, last] = [t[0] ?? 0, t.at(-1) ?? 0];
    const at = store.instant ?? last;
    if (document.activeElement !== this.slider || following) {
      this.slider.value = String(last > first ? (1000 * (at - first)) / (last - first) : 1000);
    }
    const instant = store.instant ?? store.now.t;
    text(this.shown, Number.isFinite(instant) ? clock(instant) : "");
    this.shown.dataset["t"] = String(store.now.t);
    set(this.slider, "aria-valuetext", following ? "now" : clock(at));
  }
}
