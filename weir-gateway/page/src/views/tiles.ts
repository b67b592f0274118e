// The few numbers that say at a glance how the link is.
import type { Varies } from "../api";
import { h, set, text } from "../dom";
import { bytes, delay, percent, pps, rate, type Field } from "../format";
import type { Health } from "../health";
import { Level } from "../judge";
import type { Store } from "../store";

export class Tiles {
  private readonly values: HTMLElement[];
  private readonly notes: HTMLElement[];
  private readonly well: HTMLElement;
  /** Of a line whose rate varies. */
  private readonly line: HTMLElement;
  private readonly lineRate = h("b");
  private readonly lineWhy = h("small");
  private readonly verdict = h("b");
  private readonly why = h("small");

  constructor(
    private readonly store: Store,
    private readonly root: HTMLElement,
    private readonly health: Health,
    /** Shows the promises. */
    onpick: () => void,
  ) {
    this.well = h(
      "button",
      { class: "tile well", onclick: onpick },
      h("span", {}, "Is all well?"),
      this.verdict,
      this.why,
    );
    this.line = h(
      "div",
      { class: "tile line" },
      h("span", {}, "Rate of the line"),
      this.lineRate,
      this.lineWhy,
    );
    const names = ["Sent", "Offered", "Worst p99", "Backlog", "Drops"];
    this.values = names.map(() => h("b"));
    this.notes = names.map(() => h("small"));
    root.append(
      this.well,
      ...names.map((name, at) =>
        h("div", { class: "tile" }, h("span", {}, name), this.values[at], this.notes[at]),
      ),
    );
    store.on(["sample", "about"], () => this.draw());
    store.on(["sample", "health"], () => this.drawWell());
  }

  private draw(): void {
    const { now, classes, names, direction } = this.store;
    const [sent, offered, backlog, dropped] = (
      ["sent", "offered", "backlog", "dropped"] as const
    ).map((field) => this.sum(field)) as [number, number, number, number];
    let [worst, late, lossy, most] = [NaN, -1, -1, 0];
    classes.forEach((one, index) => {
      if (!one.leaf) return;
      const drops = now.value(index, "dropped") || 0;
      if (drops > most) [most, lossy] = [drops, index];
      const p99 = now.value(index, "p99");
      if (p99 > (worst || 0)) [worst, late] = [p99, index];
    });
    const { varies } = now;
    const link = varies?.rate_bps ?? direction?.rate_bps ?? null;
    this.drawLine(varies);
    [rate(sent), rate(offered), delay(worst), bytes(backlog), pps(dropped)].forEach((value, at) =>
      this.write(this.values, at, value),
    );
    const wait = link && backlog > 0 ? `${delay((backlog * 8e6) / link)} of the line` : "";
    [
      link ? `${percent(sent / link)} of ${rate(link)}` : "",
      link && offered === offered ? `${percent(offered / link)} of the line` : "",
      names[late] ?? "",
      wait,
      lossy < 0 ? "" : `packets, most of ${names[lossy]}`,
    ].forEach((value, at) => this.write(this.notes, at, value));
  }

  /** Says how fast a line that varies is, how long frames wait behind the link, and why. */
  private drawLine(varies: Varies | null): void {
    if (!varies) return this.line.remove();
    if (!this.line.isConnected) this.root.append(this.line);
    text(this.lineRate, rate(varies.rate_bps));
    text(this.lineWhy, varies.text);
    const late = (varies.delay_us ?? 0) > varies.target_us;
    set(this.line, "data-state", late ? "warn" : "");
    set(this.line, "title", varies.text);
  }

  /** Says which promises are kept, and what is late and by how much. */
  private drawWell(): void {
    const { judgements, offers, refusal, marks } = this.health;
    const [first, ...more] = this.health.broken();
    const kept = judgements.filter(({ state }) => state !== "broken").length;
    const troubled = marks.filter(({ level }, index) => {
      return level === Level.Trouble && this.store.classes[index]?.leaf;
    });
    let [state, verdict, why] = ["", "", ""];
    if (first) {
      [state, verdict] = ["bad", `${kept} of ${judgements.length} kept`];
      why = first.words + (more.length > 0 ? `, and ${more.length} more` : "");
    } else if (judgements.length > 0) {
      state = troubled.length > 0 ? "warn" : "good";
      verdict = judgements.length === 1 ? "Promise kept" : `All ${kept} kept`;
      why = troubled[0]?.words ?? `${judgements.length} promises of the policy`;
    } else {
      verdict = "No promises";
      why =
        refusal ||
        (offers.length > 0
          ? `the policy makes none; it could make ${offers.length}`
          : "the policy makes none");
    }
    set(this.well, "data-state", state);
    text(this.verdict, verdict);
    text(this.why, why);
    set(this.well, "title", why);
  }

  /** Adds up what is known of the leaves; NaN if nothing is. */
  private sum(field: Field): number {
    const { now, classes } = this.store;
    const values = classes
      .map((one, index) => (one.leaf ? now.value(index, field) : NaN))
      .filter((value) => value === value);
    return values.length > 0 ? values.reduce((a, b) => a + b, 0) : NaN;
  }

  private write(cells: HTMLElement[], at: number, value: string): void {
    const cell = cells[at];
    if (cell) text(cell, value);
  }
}
