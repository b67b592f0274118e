// What happened, on the axis of time: a lane of marks that pointer and keyboard reach, and a list.
import { api, type Mark } from "../api";
import { LEFT, RIGHT } from "../chart";
import { h } from "../dom";
import { clock, dayAndClock } from "../format";
import type { Store } from "../store";
import { hideTip, showTip } from "../tip";
import { panel } from "./panel";

/** The most marks kept and listed. */
export const MARKS_KEPT = 500;
const LISTED = 100;

export class Marks {
  readonly element: HTMLElement;
  private readonly lane = h("div", { class: "lane" });
  private readonly list = h("ol", { class: "events" });
  private listed = "";

  constructor(private readonly store: Store) {
    this.element = panel(
      "Events and changes",
      [h("span", { class: "muted" }, "choose one to go to its moment")],
      this.lane,
      h(
        "div",
        { class: "scroll events-box", tabindex: 0, role: "group", "aria-label": "Events" },
        this.list,
      ),
    );
    store.on(["sample", "look", "past"], () => this.drawLane());
    store.on(["marks", "about"], () => {
      this.drawLane();
      this.drawList();
    });
  }

  /** Requests the marks anew. */
  async load(): Promise<void> {
    try {
      this.store.marks = (await api.events()).slice(-MARKS_KEPT);
    } catch {
      this.store.marks = [];
    }
    this.store.tell("marks");
  }

  private drawLane(): void {
    const [from, to] = this.store.shown();
    const shown = this.store.marks.filter((mark) => mark.t >= from && mark.t <= to).slice(-60);
    // An empty lane looks like an event without words.
    this.lane.hidden = shown.length === 0;
    const key = shown.map((mark) => `${mark.t}${mark.kind}`).join();
    if (key !== this.listed) {
      this.listed = key;
      this.lane.replaceChildren(...shown.map((mark) => this.pin(mark)));
    }
    [...this.lane.children].forEach((pin, at) => {
      const part = ((shown[at]?.t ?? 0) - from) / (to - from);
      (pin as HTMLElement).style.left = `calc(${LEFT}px + (100% - ${LEFT + RIGHT}px) * ${part})`;
    });
  }

  private pin(mark: Mark): HTMLElement {
    const words = `${clock(mark.t)} ${mark.text}`;
    const tell = (event: Event) => {
      const box = (event.currentTarget as Element).getBoundingClientRect();
      showTip(
        box.left,
        box.bottom,
        h("div", { class: "tip-head" }, clock(mark.t, true)),
        mark.text,
      );
    };
    return h("button", {
      class: `pin ${level(mark)}`,
      "aria-label": words,
      onmouseenter: tell,
      onfocus: tell,
      onmouseleave: hideTip,
      onblur: hideTip,
      onclick: () => this.store.goTo(mark.t),
    });
  }

  private drawList(): void {
    const latest = this.store.marks.slice(-LISTED).reverse();
    this.list.replaceChildren(
      ...(latest.length > 0
        ? latest.map((mark) =>
            h(
              "li",
              {},
              h(
                "button",
                {
                  class: "when",
                  onclick: () => this.store.goTo(mark.t),
                  title: dayAndClock(mark.t),
                },
                clock(mark.t),
              ),
              h("span", { class: `dot ${level(mark)}`, title: mark.level }),
              h("span", {}, mark.text),
            ),
          )
        : [h("li", { class: "nothing" }, "Nothing happened yet.")]),
    );
  }
}

/** Returns the class of the style sheet for a severity. */
function level(mark: Mark): string {
  if (/critical|error/.test(mark.level)) return "bad";
  if (/^(policy-changed|confirmed|rolled-back)$/.test(mark.kind)) return "change";
  return mark.level === "warning" ? "warn" : "note";
}

/** Makes a mark of an event as docs/events.md describes it. */
export function markOf(event: Record<string, unknown>): Mark {
  return {
    t: Date.parse(String(event["time"])) || Date.now(),
    kind: String(event["event"] ?? ""),
    text: String(event["text"] ?? event["event"] ?? ""),
    level: String(event["severity"] ?? "info"),
  };
}
