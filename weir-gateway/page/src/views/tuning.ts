// Tuning as in QoStat: a slider or field for each parameter that the registry lists, the predicted
// effect beside it, apply with a countdown, undo.
import { api, type Knob } from "../api";
import { choice, h } from "../dom";
import type { Store } from "../store";
import { Effect, findings } from "./effect";
import { KnobField } from "./knob";
import { panel } from "./panel";
import type { Trial } from "./trial";

/** The most parameters shown at once; a search finds the others. */
const SHOWN = 60;

export class Tuning {
  readonly element: HTMLElement;
  private readonly fields = h("div", { class: "knobs" });
  private readonly reason: HTMLInputElement;
  private readonly apply: HTMLButtonElement;
  private readonly discard: HTMLButtonElement;
  private readonly fork: HTMLButtonElement;
  private readonly footer = h("div", { class: "apply" });
  private readonly locked = h("p", { class: "locked", hidden: true });
  private readonly answer = h("div", { role: "status" });
  private readonly effect: Effect;
  private knobs: Knob[] = [];
  private scope = "class";
  private search = "";
  private trialMs = 30_000;
  private stale = false;

  constructor(
    private readonly store: Store,
    private readonly trial: Trial,
    /** Shows the fork. */
    onfork: () => void,
  ) {
    this.effect = new Effect(store, () => this.enable());
    this.reason = h("input", {
      placeholder: "why (for the history)",
      "aria-label": "Reason",
      maxlength: 200,
    });
    this.apply = h(
      "button",
      { class: "primary", disabled: true, onclick: () => void this.send() },
      "Apply",
    );
    this.discard = h("button", { disabled: true, onclick: () => this.forget() }, "Discard");
    this.fork = h("button", { disabled: true, onclick: onfork }, "Fork with this");
    this.element = panel(
      "Tune",
      this.controls(),
      this.locked,
      h(
        "div",
        { class: "tuning" },
        h("div", { class: "beside" }, this.effect.element, this.answer, this.footer),
        this.fields,
      ),
    );
    this.fields.addEventListener("focusout", () => {
      if (this.stale) setTimeout(() => this.draw());
    });
    store.on("about", () => void this.load());
    store.on("look", () => this.draw());
    store.on("pending", () => this.enable());
  }

  private controls(): HTMLElement[] {
    const search = h("input", {
      type: "search",
      placeholder: "Search parameters",
      "aria-label": "Search parameters",
      oninput: () => {
        this.search = search.value.trim().toLowerCase();
        this.draw();
      },
    });
    return [
      search,
      choice(
        "Parameters of",
        [
          ["class", "the chosen class"],
          ["link", "the link"],
          ["changed", "what I changed"],
          ["all", "all classes"],
        ],
        this.scope,
        (value) => {
          this.scope = value;
          this.draw();
        },
      ),
    ];
  }

  /** Makes the controls: only a link can be changed, and only for a link there are trials. */
  private drawFooter(): void {
    const { live } = this.store;
    this.fork.classList.toggle("primary", !live);
    const trial = () =>
      choice(
        "on trial for",
        [
          ["10000", "10 s"],
          ["30000", "30 s"],
          ["60000", "1 min"],
          ["300000", "5 min"],
          ["0", "no trial"],
        ],
        String(this.trialMs),
        (value) => {
          this.trialMs = Number(value);
        },
      );
    this.footer.replaceChildren(
      ...(live
        ? [this.reason, trial(), this.discard, this.fork, this.apply]
        : [this.discard, this.fork]),
    );
  }

  private async load(): Promise<void> {
    const { store } = this;
    if (!store.tellsPackets) return;
    this.drawFooter();
    const may = store.about?.abilities.change ?? false;
    this.locked.hidden = may;
    this.locked.textContent = store.live
      ? "This token may only read. Ask for the token that changes the link (token_file) to tune it."
      : "What happened cannot be changed. What you choose here is predicted, and Fork with this shows it for these packets.";
    try {
      this.knobs = await api.knobs(store.direction?.name ?? "");
    } catch (error) {
      this.knobs = [];
      this.fields.replaceChildren(h("p", { class: "empty" }, (error as Error).message));
      return;
    }
    this.draw();
  }

  private draw(): void {
    const { store } = this;
    // What somebody types into stays; it is drawn anew when they leave it.
    this.stale = this.fields.contains(document.activeElement);
    if (this.stale) return;
    const name = store.names[store.selected] ?? null;
    const fitting = this.knobs.filter((knob) => this.fits(knob, name));
    const locked = store.live && !(store.about?.abilities.change ?? false);
    const rate = store.direction?.rate_bps ?? null;
    const fields = fitting.slice(0, SHOWN).map((knob) => {
      const field = new KnobField(knob, rate, locked, (key, value) => store.choose(key, value));
      const chosen = store.pending.get(knob.key);
      if (chosen !== undefined) field.take(chosen);
      return field.element;
    });
    const none =
      this.scope === "changed" ? "Nothing is changed yet." : "No parameter of this name.";
    this.fields.replaceChildren(
      ...(fields.length > 0 ? fields : [h("p", { class: "empty" }, none)]),
      fitting.length > SHOWN
        ? h("p", { class: "muted" }, `${fitting.length - SHOWN} more; search for them.`)
        : "",
    );
  }

  private fits(knob: Knob, name: string | null): boolean {
    if (this.search && !`${knob.key} ${knob.summary}`.toLowerCase().includes(this.search)) {
      return false;
    }
    switch (this.scope) {
      case "link":
        return knob.class === null;
      case "changed":
        return this.store.pending.has(knob.key);
      case "all":
        return true;
      default:
        return knob.class === name;
    }
  }

  private enable(): void {
    const any = this.store.pending.size > 0;
    const may = this.store.live && (this.store.about?.abilities.change ?? false);
    this.discard.disabled = !any;
    const able = this.store.about?.abilities.fork ?? false;
    this.fork.disabled = !any || !able || this.effect.errors > 0;
    this.apply.disabled = !any || !may || this.effect.errors > 0;
    this.apply.textContent = any ? `Apply ${this.store.pending.size}` : "Apply";
  }

  private forget(): void {
    this.store.pending.clear();
    this.store.tell("pending");
    this.draw();
  }

  private async send(): Promise<void> {
    this.apply.disabled = true;
    this.answer.replaceChildren();
    try {
      const reason = this.reason.value.trim();
      const { changed } = await api.set(this.store.settings(), {
        ...(this.trialMs > 0 ? { confirm_ms: this.trialMs } : {}),
        ...(reason ? { reason } : {}),
      });
      if (changed.errors > 0 || changed.number === null) {
        this.answer.replaceChildren(
          changed.errors > 0
            ? findings(changed.findings)
            : h("p", { class: "empty" }, changed.what || "Nothing changes."),
        );
        return this.enable();
      }
      if (changed.trial_ms) this.trial.begin(changed.number, changed.what, changed.trial_ms);
      this.store.pending.clear();
      this.store.tell("pending");
      this.store.tell("log");
    } catch (error) {
      this.answer.replaceChildren(h("p", { class: "finding error" }, (error as Error).message));
      this.enable();
    }
  }
}
