// The chosen class: what the policy says of it, what it does now, and its drops by cause.
import { h, table, text } from "../dom";
import { UNKNOWN, bytes, delay, percent, pps, rate } from "../format";
import { MAY_DROP } from "../judge";
import type { Store } from "../store";
import { panel } from "./panel";

export class Detail {
  readonly element: HTMLElement;
  private readonly name = h("strong");
  private readonly where = h("span", { class: "muted" });
  private readonly facts = h("dl", { class: "facts" });
  private readonly drops = h("div", { class: "drops" });
  private drawn = "";
  private values: HTMLElement[] = [];

  constructor(private readonly store: Store) {
    this.element = panel("Chosen class", [this.name, this.where], this.facts, this.drops);
    store.on(["look", "about"], () => this.renew());
    store.on("sample", () => this.update());
    store.on(["past", "look"], () => this.drawDrops());
  }

  private renew(): void {
    const { store } = this;
    const one = store.classes[store.selected];
    if (!one) return;
    text(this.name, one.name);
    const above = one.parent === null ? "the link" : (store.names[one.parent] ?? "");
    text(this.where, `${one.leaf ? "leaf" : "inner class"} below ${above}`);
    const live = [
      "Rate",
      "Of its share",
      "Offered",
      "Delay p50",
      "Delay p99",
      "Backlog",
      "Drops",
      ...(store.lends ? ["Borrowed"] : []),
    ];
    this.values = live.map(() => h("dd"));
    this.facts.replaceChildren(
      ...live.map((name, at) => h("div", {}, h("dt", {}, name), this.values[at])),
      ...[
        ["Share", rate(one.share_bps)],
        ["Ceiling", rate(one.ceiling_bps)],
      ]
        .filter(([, value]) => value !== UNKNOWN)
        .concat(one.parameters)
        .map(([name, value]) =>
          h("div", { class: "given" }, h("dt", {}, name ?? ""), h("dd", {}, value ?? "")),
        ),
    );
    this.update();
  }

  private update(): void {
    const { now, selected, classes, tellsPackets } = this.store;
    const of = (field: Parameters<typeof now.value>[1]) => now.value(selected, field);
    const share = classes[selected]?.share_bps ?? 0;
    [
      rate(of("sent")),
      percent(of("sent") / share),
      rate(of("offered")),
      delay(of("p50")),
      delay(of("p99")),
      bytes(of("backlog")),
      pps(of("dropped")),
      rate(of("borrowed")),
    ].forEach((value, at) => {
      const cell = this.values[at];
      if (!cell) return;
      text(cell, value);
      // A report has most of them for no class.
      if (cell.parentElement) cell.parentElement.hidden = value === UNKNOWN && !tellsPackets;
    });
  }

  /** Shows what was dropped of this class in the time that charts show, by cause. */
  private drawDrops(): void {
    const { store } = this;
    const name = store.names[store.selected] ?? "";
    const [from, to] = store.shown();
    const sums = [...store.past.dropped(name, from, to, store.about?.step_ms ?? 1000)]
      .filter(([, sum]) => sum >= 0.5)
      .sort((a, b) => b[1] - a[1]);
    const one = store.classes[store.selected];
    const over = store.now.value(store.selected, "offered") > (one?.share_bps ?? 0);
    const key = JSON.stringify([name, sums, over]);
    if (key === this.drawn) return;
    this.drawn = key;
    const most = Math.max(1, ...sums.map(([, sum]) => sum));
    const rows = sums.map(([reason, sum]) => {
      // What is meant, or of a class over its share, is no trouble.
      const bar = h("div", { class: over || MAY_DROP.has(reason) ? "drop-bar meant" : "drop-bar" });
      bar.style.width = `${(100 * sum) / most}%`;
      return [reason, Math.round(sum).toLocaleString("en"), h("div", { class: "drop-track" }, bar)];
    });
    this.drops.replaceChildren(
      rows.length > 0
        ? table(`Drops of ${name} by cause`, ["cause of drops", "packets", ""], rows)
        : h(
            "p",
            { class: "empty" },
            store.tellsPackets
              ? `No packet of ${name} was dropped in this time.`
              : "A report tells rates only; a record of a link tells delays and drops, too.",
          ),
    );
  }
}
