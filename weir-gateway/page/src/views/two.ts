// Two courses of the same classes drawn over each other, one solid and one dashed: two futures of a
// moment, or a live run and its simulation.
import type { ClassHistory, Mark, Totals } from "../api";
import { Chart, type Series } from "../chart";
import { beforeAfter, h, table } from "../dom";
import { count, delay, measure, rate, type Field } from "../format";
import type { Store } from "../store";

/** The most points of a line: more of two courses over each other cannot be told apart. */
const POINTS = 60;
/** The most classes drawn, each with two lines. */
const DRAWN = 6;
/** The most classes in the table. */
const ROWS = 200;

export type Courses = Record<string, ClassHistory>;

/** What to draw. */
export interface Pair {
  t: number[];
  solid: Courses;
  dashed: Courses;
  /** What each class did in all, where that is known. */
  totals?: { solid: Record<string, Totals>; dashed: Record<string, Totals> };
  field: Field;
  /** The field as the server names it. */
  name: keyof ClassHistory;
  marks: Mark[];
  /** What the chart shows, for those who do not see it. */
  words: string;
}

export class TwoCourses {
  /** The chart, its legend and its table. */
  readonly elements: HTMLElement[];
  private readonly chart: Chart;
  private readonly legend = h("ul", { class: "legend" });
  private readonly numbers: HTMLElement;

  constructor(
    private readonly store: Store,
    private readonly title: string,
    private readonly solid: string,
    private readonly dashed: string,
  ) {
    this.chart = new Chart({ label: title, height: 260 });
    this.numbers = h("div", {
      class: "scroll",
      tabindex: 0,
      role: "group",
      "aria-label": `${title} in numbers`,
    });
    this.elements = [this.chart.element, this.legend, this.numbers];
  }

  draw(pair: Pair): void {
    const { store, solid, dashed } = this;
    const { write } = measure(pair.field);
    const classes = this.classes(pair);
    const group = Math.ceil(pair.t.length / POINTS);
    // A last group that is not whole has no mean to compare.
    const whole = pair.t.length - (pair.t.length % group) || pair.t.length;
    const t = pair.t.slice(0, whole).filter((_, i) => (i + 1) % group === 0 || i === whole - 1);
    const colour = (one: string) => store.colours[store.names.indexOf(one)] ?? "";
    const line = (course: Courses, one: string) =>
      means(course[one]?.[pair.name]?.slice(0, whole), group);
    const series: Series[] = classes.flatMap((one) => [
      { name: `${one}, ${solid}`, colour: colour(one), values: line(pair.solid, one) },
      {
        name: `${one}, ${dashed}`,
        colour: colour(one),
        values: line(pair.dashed, one),
        dashed: true,
      },
    ]);
    const [from, to] = [t[0] ?? 0, t.at(-1) ?? 1];
    this.chart.draw({
      t,
      series,
      stacked: false,
      limit: null,
      from,
      to,
      instant: null,
      marks: pair.marks,
      write,
    });
    this.chart.element.setAttribute("aria-label", `${pair.words}; the table below has the means`);
    const key = (name: string, swatch: HTMLElement) =>
      h("li", {}, h("span", { class: "key" }, swatch, name));
    this.legend.replaceChildren(
      ...classes.map((one) => {
        const swatch = h("span", { class: "swatch" });
        swatch.style.background = colour(one);
        return key(one, swatch);
      }),
      key(solid, h("span", { class: "solid" })),
      key(dashed, h("span", { class: "dash" })),
    );
    this.drawNumbers(pair);
  }

  /** Returns the chosen class and those that differ most. */
  private classes({ solid, dashed, name }: Pair): string[] {
    const { store } = this;
    const leaves = store.classes.filter((one) => one.leaf).map((one) => one.name);
    const weight = (one: string) => {
      const [was, is] = [mean(solid[one]?.[name]), mean(dashed[one]?.[name])];
      return 1e3 * Math.abs((was || 0) - (is || 0)) + Math.max(was || 0, is || 0);
    };
    const order = leaves
      .filter((one) => one in solid || one in dashed)
      .sort((a, b) => weight(b) - weight(a));
    const chosen = store.names[store.selected] ?? "";
    const first = order.includes(chosen) ? [chosen] : [];
    return [...new Set([...first, ...order])].slice(0, DRAWN);
  }

  private drawNumbers(pair: Pair): void {
    const rows = this.store.classes
      .filter((one) => one.leaf && one.name in pair.dashed)
      .slice(0, ROWS)
      .map(({ name }) => {
        const [was, is] = [pair.solid[name], pair.dashed[name]];
        const [before, after] = [pair.totals?.solid[name], pair.totals?.dashed[name]];
        return [
          name,
          both(rate, mean(was?.sent_bps), mean(is?.sent_bps)),
          both(delay, mean(was?.p99_us), mean(is?.p99_us)),
          ...(pair.totals
            ? [
                both(delay, before?.delay_mean_us, after?.delay_mean_us),
                both(count, before?.dropped_packets ?? 0, after?.dropped_packets ?? 0),
              ]
            : []),
        ];
      });
    const { solid, dashed } = this;
    const measures = ["rate", "mean p99", ...(pair.totals ? ["mean delay", "drops"] : [])];
    const head = measures.map((what) => `${what}, ${solid} → ${dashed}`);
    this.numbers.replaceChildren(table(`${this.title} in numbers`, ["class", ...head], rows));
  }
}

/** Returns the means of groups of values. */
export function means(values: (number | null)[] | undefined, group: number): (number | null)[] {
  const found: (number | null)[] = [];
  for (let at = 0; at < (values?.length ?? 0); at += group) {
    const value = mean(values?.slice(at, at + group));
    found.push(Number.isFinite(value) ? value : null);
  }
  return found;
}

function mean(values: (number | null)[] | undefined): number {
  const known = (values ?? []).filter((value): value is number => value !== null);
  return known.length > 0 ? known.reduce((a, b) => a + b, 0) / known.length : NaN;
}

/** Writes two values in one cell, the second once if it is written as the first. */
function both<T>(write: (value: T) => string, solid: T, dashed: T): Node | string {
  const [one, other] = [write(solid), write(dashed)];
  return one === other ? one : beforeAfter(one, other);
}
