// What a change would lead to, drawn before it is applied: findings, and each class's share and
// bounds before and after.
import { api, type Finding, type PredictedClass, type Prediction, type Setting } from "../api";
import { beforeAfter, h, table } from "../dom";
import { delay, rate } from "../format";
import type { Store } from "../store";

/** Milliseconds without another change before the server is asked. */
const PAUSE = 200;
/** The most classes drawn: those that change most. */
const DRAWN = 24;

export class Effect {
  readonly element = h("div", { class: "effect", "aria-live": "polite" });
  private timer = 0;
  private turn = 0;
  errors = 0;

  constructor(
    private readonly store: Store,
    private readonly onknown: () => void,
  ) {
    store.on("pending", () => this.later());
  }

  private later(): void {
    clearTimeout(this.timer);
    this.errors = this.store.pending.size > 0 ? 1 : 0;
    this.timer = window.setTimeout(() => void this.ask(this.store.settings()), PAUSE);
  }

  private async ask(settings: Setting[]): Promise<void> {
    const turn = ++this.turn;
    if (settings.length === 0) {
      this.element.replaceChildren(hint());
      return this.onknown();
    }
    try {
      const prediction = await api.predict(this.store.direction?.name ?? "", settings);
      if (turn !== this.turn) return;
      this.errors = prediction.errors;
      this.draw(prediction);
    } catch (error) {
      if (turn !== this.turn) return;
      this.element.replaceChildren(h("p", { class: "finding error" }, (error as Error).message));
    }
    this.onknown();
  }

  private draw(prediction: Prediction): void {
    const changed = prediction.classes.filter((one) => moves(one));
    const order = [...changed].sort((a, b) => size(b) - size(a)).slice(0, DRAWN);
    const still = changed.length === 0 && prediction.errors === 0;
    this.element.replaceChildren(
      findings(prediction.findings),
      ...(prediction.errors > 0
        ? []
        : [
            h("h3", {}, "Shares while all classes want more than they get"),
            order.length > 0 ? this.bars(order) : "",
            changed.some((one) => lost(one.share_bps) || lost(one.at_least_bps))
              ? h(
                  "p",
                  { class: "muted" },
                  `“${OPEN}”: with this change it depends on what classes borrow, so no number ` +
                    "can be given beforehand. A fork shows it for the traffic of now.",
                )
              : "",
            still ? h("p", { class: "empty" }, "No share or bound changes.") : "",
            changed.length > order.length
              ? h("p", { class: "muted" }, `${changed.length - order.length} more classes change.`)
              : "",
          ]),
      standing(prediction.standing),
      prediction.difference
        ? h(
            "details",
            {},
            h("summary", {}, "All that changes"),
            h("pre", { tabindex: 0 }, prediction.difference),
          )
        : "",
    );
  }

  private bars(classes: PredictedClass[]): HTMLElement {
    const most = Math.max(
      1,
      ...classes.flatMap((one) => one.share_bps?.map((value) => value ?? 0) ?? []),
    );
    const rows = classes.map((one) => {
      const [before, after] = one.share_bps ?? [null, null];
      const [was, will] = [h("i", { class: "before" }), h("i", { class: "after" })];
      was.style.width = `${(100 * (before ?? 0)) / most}%`;
      will.style.width = `${(100 * (after ?? 0)) / most}%`;
      will.style.background = this.store.colours[this.store.names.indexOf(one.name)] ?? "";
      return [
        one.name,
        h("div", { class: "two-bars" }, was, will),
        pair(one.share_bps, rate),
        pair(one.delay_bound_us, delay),
        pair(one.at_least_bps, rate),
      ];
    });
    // A column whose values no class has takes no room.
    const any = (of: (one: PredictedClass) => Pair) =>
      classes.some((one) => of(one)?.some((value) => value !== null));
    const shown = [
      true,
      true,
      true,
      any((one) => one.delay_bound_us),
      any((one) => one.at_least_bps),
    ];
    const head = ["class", "before, after", "share", "delay bound", "at least"];
    return h(
      "div",
      { class: "scroll", tabindex: 0, role: "group", "aria-label": "Predicted effect" },
      table(
        "Predicted effect",
        head.filter((_, at) => shown[at]),
        rows.map((row) => row.filter((_, at) => shown[at])),
      ),
    );
  }
}

const hint = () =>
  h(
    "p",
    { class: "empty" },
    "Move a slider or change a field: what it would do " +
      "to every class is shown here, before anything is applied.",
  );

/** Writes the findings of a check. */
export function findings(all: Finding[]): HTMLElement {
  return h(
    "ul",
    { class: "findings" },
    ...all.map((one) =>
      h(
        "li",
        { class: `finding ${one.severity}` },
        h("b", {}, `${one.severity} ${one.code}`),
        ` ${one.message}`,
        one.cure ? h("span", { class: "muted" }, ` ${one.cure}`) : null,
      ),
    ),
  );
}

/** The findings that the policy has without the change, folded: they are no part of the prediction. */
function standing(all: Finding[]): HTMLElement | "" {
  if (all.length === 0) return "";
  const words = all.length === 1 ? "1 finding" : `${all.length} findings`;
  return h(
    "details",
    { class: "standing" },
    h("summary", {}, `${words} of the policy as it is`),
    findings(all),
  );
}

type Pair = [number | null, number | null] | null;

function differ(pair: Pair): boolean {
  if (pair?.[0] === undefined || pair[0] === null || pair[1] === null) return false;
  const [before, after] = pair;
  return Math.abs(before - after) > 1e-3 * Math.max(Math.abs(before), Math.abs(after));
}

/** What the server cannot tell beforehand. */
const OPEN = "depends";

const lost = (pair: Pair) => !!pair && pair[0] !== null && pair[1] === null;

const moves = (one: PredictedClass) =>
  [one.share_bps, one.delay_bound_us, one.at_least_bps].some(differ);

const size = (one: PredictedClass) =>
  Math.abs((one.share_bps?.[1] ?? 0) - (one.share_bps?.[0] ?? 0));

function pair(values: Pair, write: (value: number | null) => string): Node {
  if (!values || (values[0] === null && values[1] === null)) return h("span", {}, "–");
  // It was known, and is not with the change.
  if (values[1] === null) return beforeAfter(write(values[0]), OPEN);
  return differ(values)
    ? beforeAfter(write(values[0]), h("b", {}, write(values[1])))
    : h("span", { class: "muted" }, write(values[1]));
}
