// The few numbers that say at a glance how the link is.
import { h, text } from "../dom";
import { bytes, delay, percent, pps, rate, type Field } from "../format";
import type { Store } from "../store";

export class Tiles {
  private readonly values: HTMLElement[];
  private readonly notes: HTMLElement[];

  constructor(
    private readonly store: Store,
    root: HTMLElement,
  ) {
    const names = ["Sent", "Offered", "Worst p99", "Backlog", "Drops"];
    this.values = names.map(() => h("b"));
    this.notes = names.map(() => h("small"));
    root.append(
      ...names.map((name, at) =>
        h("div", { class: "tile" }, h("span", {}, name), this.values[at], this.notes[at]),
      ),
    );
    store.on(["sample", "about"], () => this.draw());
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
    const link = direction?.rate_bps ?? null;
    [rate(sent), rate(offered), delay(worst), bytes(backlog), pps(dropped)].forEach((value, at) =>
      this.write(this.values, at, value),
    );
    const wait = link && backlog > 0 ? `${delay((backlog * 8e6) / link)} of the line` : "";
    [
      link ? `${percent(sent / link)} of ${rate(link)}` : "",
      link && offered === offered ? percent(offered / link) : "",
      names[late] ?? "",
      wait,
      names[lossy] ?? "",
    ].forEach((value, at) => this.write(this.notes, at, value));
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
