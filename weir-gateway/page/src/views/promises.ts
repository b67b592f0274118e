// What the policy promises, held against what happens; and what it could promise.
import type { Condition } from "../api";
import { h, table, text } from "../dom";
import type { Health } from "../health";
import { goalOf } from "../judge";
import type { Store } from "../store";
import { panel } from "./panel";

/** The most offers listed; the policy's text has room for the others. */
const OFFERED = 40;

const WORDS = { kept: "kept", broken: "broken", unknown: "nothing to measure now" };

export class PromiseList {
  readonly element: HTMLElement;
  private readonly list = h("div", {
    class: "scroll",
    tabindex: 0,
    role: "group",
    "aria-label": "Promises",
  });
  private readonly offers = h("div", { class: "offers" });

  constructor(
    store: Store,
    private readonly health: Health,
  ) {
    const close = h("button", { class: "quiet", onclick: () => this.toggle(false) }, "Close");
    this.element = panel("Promises", [close], this.list, this.offers);
    this.element.hidden = true;
    store.on("sample", () => this.draw());
    store.on(["health", "about"], () => {
      this.draw();
      this.drawOffers();
    });
  }

  /** Shows or hides the list. */
  toggle(shown = this.element.hidden): void {
    this.element.hidden = !shown;
    this.draw();
    this.drawOffers();
    if (shown) this.element.scrollIntoView({ block: "nearest" });
  }

  private draw(): void {
    if (this.element.hidden) return;
    const rows = this.health.judgements.map(({ promise, state, now, words }) => [
      promise.that,
      now,
      h("span", { class: `verdict-${state}`, title: words }, WORDS[state]),
    ]);
    const none = this.health.refusal || "The policy promises nothing.";
    const { scrollTop, scrollLeft } = this.list;
    this.list.replaceChildren(
      rows.length > 0
        ? table("Promises of the policy", ["promise", "now", "is"], rows)
        : h("p", { class: "empty" }, none),
    );
    this.list.scrollTo(scrollLeft, scrollTop);
  }

  private drawOffers(): void {
    if (this.element.hidden) return;
    const { offers } = this.health;
    if (offers.length === 0) return this.offers.replaceChildren();
    const shown = offers.slice(0, OFFERED);
    const area = h("pre", { tabindex: 0 }, shown.map(written).join("\n"));
    const copy = h("button", { class: "quiet" }, "Copy");
    copy.addEventListener("click", () => {
      void navigator.clipboard?.writeText(area.textContent ?? "").then(() => text(copy, "Copied"));
    });
    const more = offers.length - shown.length;
    this.offers.replaceChildren(
      h("h3", {}, "What the policy could promise"),
      h(
        "p",
        { class: "muted" },
        "These hold whatever others send (weir check --bounds). Write those that you mean into the " +
          `policy, with a scenario for weir test.${more > 0 ? ` ${more} more are left out.` : ""}`,
      ),
      h("div", { class: "copied" }, area, copy),
    );
  }
}

/** Returns an offer as the policy would have it. */
function written(offer: Condition): string {
  return `[[promise]]   # ${offer.class ?? ""}: ${goalOf(offer)}\nthat = "${offer.that}"\nunder = "evening.toml"\n`;
}
