// All classes over time, stacked, with the rate of the link: the graph of TTT (Cho's "tele traffic
// tapper"). Other measures are drawn the same way; delays as lines, since they do not add up.
import { Chart, type Drawing, type Series } from "../chart";
import { choice, h, table } from "../dom";
import { MEASURES, clock, measure, span, type Field } from "../format";
import { ink } from "../palette";
import type { Store } from "../store";
import { panel } from "./panel";

/** Classes with a colour of their own in the chart; the others are one area. */
const TOPS = [8, 12, 20, 40];

export class Throughput {
  readonly element: HTMLElement;
  private readonly chart: Chart;
  private readonly legend = h("ul", { class: "legend" });
  private readonly numbers = h("div", {
    class: "scroll",
    tabindex: 0,
    role: "group",
    "aria-label": "Numbers of the chart",
  });
  private readonly asTable: HTMLDetailsElement;
  private field: Field = "sent";
  private top = 12;
  /** The depth of the classes that are stacked; `null` for leaves. */
  private level: number | null = null;
  private readonly levels = h("span", { class: "choice-slot" });
  private classes: number[] = [];
  private legendOf = "";

  constructor(private readonly store: Store) {
    this.chart = new Chart({
      label: "Throughput of classes over time",
      height: 260,
      onpick: (t, series) => this.pick(t, series),
    });
    this.asTable = h(
      "details",
      { class: "numbers", ontoggle: () => this.draw() },
      h("summary", {}, "As a table"),
      this.numbers,
    );
    const measures = MEASURES.map((row) => [row.key, row.name] as const);
    this.element = panel(
      "Classes over time",
      [
        this.levels,
        choice("Measure", measures, this.field, (value) => {
          this.field = value as Field;
          this.draw();
        }),
        choice(
          "Largest",
          TOPS.map((n) => [String(n), `${n} classes`] as const),
          "12",
          (value) => {
            this.top = Number(value);
            this.draw();
          },
        ),
      ],
      this.chart.element,
      this.legend,
      this.asTable,
    );
    store.on(["sample", "past", "look", "marks", "theme", "about"], () => this.draw());
    store.on("about", () => this.offerLevels());
  }

  /** Offers each level of the tree, named by its first classes. */
  private offerLevels(): void {
    const { store } = this;
    const deepest = Math.max(0, ...store.depths);
    if (this.level !== null && this.level >= deepest) this.level = null;
    this.levels.hidden = deepest === 0;
    const levels = Array.from({ length: deepest }, (_, depth) => {
      const names = store.names.filter((_, index) => store.depths[index] === depth);
      const first = names.slice(0, 2).join(", ");
      return [String(depth), names.length > 2 ? `${first} …` : first] as const;
    });
    this.levels.replaceChildren(
      choice(
        "Stack",
        [["leaves", "leaves"] as const, ...levels],
        this.level === null ? "leaves" : String(this.level),
        (value) => {
          this.level = value === "leaves" ? null : Number(value);
          this.draw();
        },
      ),
    );
  }

  private pick(t: number, series: number): void {
    const index = this.classes[series];
    if (index !== undefined) this.store.select(index);
    this.store.goTo(t);
  }

  private draw(): void {
    if (!this.store.direction || this.store.past.t.length === 0) return;
    const drawing = this.drawing();
    this.chart.draw(drawing);
    this.chart.element.setAttribute("aria-label", this.words(drawing));
    this.drawLegend(drawing);
    if (this.asTable.open) this.drawTable(drawing);
  }

  private drawing(): Drawing {
    const { store, field } = this;
    const { adds, write } = measure(field);
    const [from, to] = store.shown();
    const [first, end] = store.past.range(from - 2000, to + 2000);
    const { top, rest } = store.largest(field, this.top, this.level);
    this.classes = top;
    const t = store.past.t.slice(first, end);
    const present = store.instant === null && store.live && store.now.t > (t.at(-1) ?? Infinity);
    if (present) t.push(store.now.t);
    const values = (index: number) => this.values(index, first, end, present);
    const series: Series[] = top.map((index) => ({
      name: store.names[index] ?? "",
      colour: store.colours[index] ?? "",
      values: values(index),
    }));
    if (rest.length > 0 && adds) {
      series.push({
        name: `${rest.length} others`,
        colour: ink("others"),
        values: sum(rest.map(values), t.length),
      });
    }
    const rate = store.direction?.rate_bps ?? null;
    const limited = rate !== null && (field === "sent" || field === "offered");
    return {
      t,
      series,
      stacked: adds,
      limit: limited ? { name: "link", value: rate } : null,
      from,
      to,
      instant: store.instant,
      marks: store.marks,
      write,
    };
  }

  private values(index: number, first: number, end: number, present: boolean): (number | null)[] {
    const { past, now } = this.store;
    const values: (number | null)[] = [];
    for (let i = first; i < end; i++) values.push(known(past.value(index, this.field, i)));
    if (present) values.push(known(now.value(index, this.field)));
    return values;
  }

  private drawLegend(drawing: Drawing): void {
    const key = JSON.stringify([this.classes, drawing.series.map((one) => one.colour)]);
    if (key === this.legendOf) return;
    this.legendOf = key;
    this.legend.replaceChildren(
      ...drawing.series.map((one, at) => {
        const swatch = h("span", { class: "swatch" });
        swatch.style.background = one.colour;
        const index = this.classes[at];
        return h(
          "li",
          {},
          index === undefined
            ? h("span", { class: "key" }, swatch, one.name)
            : h(
                "button",
                { class: "key", onclick: () => this.store.select(index) },
                swatch,
                one.name,
              ),
        );
      }),
      drawing.limit
        ? h("li", {}, h("span", { class: "key" }, h("span", { class: "dash" }), "rate of the link"))
        : "",
    );
  }

  private words(drawing: Drawing): string {
    const { write, name } = measure(this.field);
    const last = drawing.t.length - 1;
    const parts = drawing.series.map((one) => `${one.name} ${write(one.values[last] ?? null)}`);
    return (
      `${name} of classes over ${span(drawing.to - drawing.from)}; at ` +
      `${clock(drawing.t[last] ?? 0)}: ${parts.slice(0, 12).join(", ")}. ` +
      "Left and right go through time, up and down through classes."
    );
  }

  private drawTable(drawing: Drawing): void {
    const step = Math.max(1, Math.ceil(drawing.t.length / TABLE_ROWS));
    const rows = drawing.t
      .map((t, i) => [t, i] as const)
      .filter(([, i]) => i % step === 0)
      .map(([t, i]) => [
        clock(t),
        ...drawing.series.map((one) => drawing.write(one.values[i] ?? null)),
      ]);
    this.numbers.replaceChildren(
      table(
        "Values of the chart",
        ["time", ...drawing.series.map((one) => one.name)],
        rows.reverse(),
      ),
    );
  }
}

/** The most rows of the table beside a chart. */
const TABLE_ROWS = 60;

const known = (value: number): number | null => (value === value ? value : null);

function sum(rows: (number | null)[][], length: number): (number | null)[] {
  const total = new Array<number>(length).fill(0);
  for (const row of rows)
    row.forEach((value, i) => {
      total[i] = (total[i] ?? 0) + (value ?? 0);
    });
  return total;
}
