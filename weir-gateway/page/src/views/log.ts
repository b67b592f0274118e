// The changes made, the latest first, each a state to which one can return.
import { api, type Entry } from "../api";
import { h } from "../dom";
import { dayAndClock } from "../format";
import type { Store } from "../store";
import { panel } from "./panel";

export class Log {
  readonly element: HTMLElement;
  private readonly list = h("ol", { class: "log" });
  private readonly undo: HTMLButtonElement;

  constructor(
    private readonly store: Store,
    private readonly refused: (error: Error) => void,
  ) {
    this.undo = h(
      "button",
      { disabled: true, onclick: () => void this.back(undefined) },
      "Undo last change",
    );
    this.element = panel("History of changes", [this.undo], this.list);
    store.on(["about", "log"], () => void this.load());
  }

  async load(): Promise<void> {
    if (!this.store.live) {
      this.undo.disabled = true;
      this.list.replaceChildren(h("li", { class: "muted" }, "Only a live link has a history."));
      return;
    }
    try {
      const { log } = await api.log();
      this.draw([...log].reverse());
    } catch (error) {
      this.list.replaceChildren(h("li", { class: "muted" }, (error as Error).message));
    }
  }

  private draw(entries: Entry[]): void {
    const may = this.store.about?.abilities.change ?? false;
    this.undo.disabled = !may || entries.length < 2;
    this.list.replaceChildren(
      ...entries.map((entry, at) =>
        h(
          "li",
          {},
          h(
            "div",
            {},
            h("b", {}, `${entry.number}`),
            " ",
            entry.what || entry.origin,
            at === 0 && entry.on_trial ? h("span", { class: "badge" }, "on trial") : null,
            at === 0 ? h("span", { class: "badge good" }, "in force") : null,
          ),
          h(
            "div",
            { class: "muted" },
            [dayAndClock(entry.at_ns / 1e6), entry.origin, entry.reason]
              .filter((part) => part)
              .join(" · "),
          ),
          at === 0 && may && entry.on_trial
            ? h("button", { class: "quiet", onclick: () => void this.keep() }, "Keep")
            : null,
          at > 0 && may
            ? h(
                "button",
                { class: "quiet", onclick: () => void this.back(entry.number) },
                `Return to ${entry.number}`,
              )
            : null,
        ),
      ),
    );
  }

  private async keep(): Promise<void> {
    try {
      await api.confirm();
      this.store.tell("log");
    } catch (error) {
      this.refused(error as Error);
    }
  }

  private async back(number: number | undefined): Promise<void> {
    try {
      await api.rollback(number, { reason: "undone in the page" });
      this.store.tell("log");
    } catch (error) {
      this.refused(error as Error);
    }
  }
}
