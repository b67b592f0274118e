// The points of a sweep or a comparison: a table of them, and of two metrics the front, which is the
// points that no other one exceeds in both. Each run is a page of its own.
import type { Point, Runs } from "../api";
import { choice, h, s, table, text } from "../dom";
import { UNKNOWN, digits } from "../format";
import { hideTip, showTip, tipLine } from "../tip";
import { panel } from "./panel";

/** Points of which the table has rows. */
const ROWS = 300;
/** The runs of a point that its row lists. */
const LISTED = 12;
/** The height of the picture and its margins, in pixels. */
const [HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [320, 60, 40, 28, 18];
/** Names that are nearer to each other are not both written. */
const APART = 15;

export class RunList {
  readonly elements: HTMLElement[];
  private readonly picture = h("div", { class: "front" });
  private readonly words = h("p", { class: "plan" });
  private readonly rows = h("div", {
    class: "scroll runs-table",
    tabindex: 0,
    role: "group",
    "aria-label": "Table of points",
  });
  private readonly more = h("p", { class: "muted" });
  private x: number;
  private y: number;
  /** The column that sorts: a key, or a metric behind the keys; `null` is their order. */
  private order: number | null = null;
  private falling = false;

  constructor(private readonly runs: Runs) {
    const { metrics, points, left_out } = runs;
    // Two metrics of which one is paid for by the other tell most.
    this.y = 0;
    this.x = Math.max(
      1,
      metrics.findIndex((one) => one.more !== metrics[0]?.more),
    );
    this.x = Math.min(this.x, metrics.length - 1);
    const options = metrics.map((one, at) => [String(at), named(one)] as const);
    const choose = (label: string, chosen: number, take: (at: number) => void) =>
      choice(label, options, String(chosen), (value) => {
        take(Number(value));
        this.draw();
      });
    const both = [
      choose("Across", this.x, (at) => (this.x = at)),
      choose("Up", this.y, (at) => (this.y = at)),
    ];
    this.elements = [
      panel("Front", both, this.words, this.picture),
      panel(
        left_out > 0 ? `${points.length} points, ${left_out} more` : `${points.length} points`,
        [],
        this.rows,
        this.more,
      ),
    ];
    this.drawRows();
    new ResizeObserver(() => this.draw()).observe(this.picture);
  }

  draw(): void {
    const [x, y] = [this.runs.metrics[this.x], this.runs.metrics[this.y]];
    if (!x || !y) return;
    const known = this.runs.points.filter((one) => at(one, this.x) && at(one, this.y));
    const front = known.filter((one) => !known.some((other) => this.exceeds(other, one)));
    const better = (metric: { name: string; more: boolean }) =>
      `${metric.more ? "more" : "less"} ${metric.name}`;
    this.words.textContent =
      this.x === this.y
        ? `Better is ${better(x)}.`
        : `Better is ${better(x)} and ${better(y)}. ${front.length} of ${known.length} points ` +
          `${front.length === 1 ? "is" : "are"} the front: no other one is better in one and as ` +
          "good in the other.";
    this.picture.replaceChildren(this.drawn(known, new Set(front)));
  }

  /** Returns whether a point is better in one of both metrics, and as good in the other. */
  private exceeds(one: Point, other: Point): boolean {
    const by = [this.x, this.y].map((metric) => {
      const [a, b] = [at(one, metric)?.[0] ?? 0, at(other, metric)?.[0] ?? 0];
      return this.runs.metrics[metric]?.more ? a - b : b - a;
    });
    return by.every((more) => more >= 0) && by.some((more) => more > 0);
  }

  private width(): number {
    return Math.max(280, this.picture.clientWidth);
  }

  private drawn(known: Point[], front: Set<Point>): SVGSVGElement {
    const [across, up] = [this.scale(known, this.x), this.scale(known, this.y)];
    const left = (value: number) => LEFT + across.part(value) * (this.width() - LEFT - RIGHT);
    const top = (value: number) => HEIGHT - BOTTOM - up.part(value) * (HEIGHT - BOTTOM - TOP);
    const best = [...front].sort((a, b) => (at(a, this.x)?.[0] ?? 0) - (at(b, this.x)?.[0] ?? 0));
    const place = (one: Point) =>
      [left(at(one, this.x)?.[0] ?? 0), top(at(one, this.y)?.[0] ?? 0)] as const;
    const written: (readonly [number, number])[] = [];
    const axis = [
      ...across.ticks.map((value) => [
        s("line", { x1: left(value), x2: left(value), y1: TOP, y2: HEIGHT - BOTTOM }),
        s(
          "text",
          { x: left(value), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" },
          short(value),
        ),
      ]),
      ...up.ticks.map((value) => [
        s("line", { x1: LEFT, x2: this.width() - RIGHT, y1: top(value), y2: top(value) }),
        s("text", { x: LEFT - 6, y: top(value) + 4, "text-anchor": "end" }, short(value)),
      ]),
    ].flat();
    const [x, y] = [this.x, this.y].map((metric) => {
      const one = this.runs.metrics[metric];
      return one ? named(one) : "";
    });
    return s(
      "svg",
      { viewBox: `0 0 ${this.width()} ${HEIGHT}`, role: "group", "aria-label": `${y} over ${x}` },
      s("g", { class: "axis" }, ...axis),
      s("text", { x: (LEFT + this.width()) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, x),
      s("text", { x: 4, y: 14 }, y),
      s("polyline", { class: "best", points: best.map((one) => place(one).join()).join(" ") }),
      ...[...front, ...known.filter((one) => !front.has(one))].map((one) =>
        this.dot(one, place(one), front.has(one), { left, top, written }),
      ),
    );
  }

  /** A point as a link to its first run, with its intervals. */
  private dot(
    one: Point,
    [x, y]: readonly [number, number],
    isBest: boolean,
    { left, top, written }: Room,
  ): SVGAElement {
    const ends = (metric: number) => {
      const [mean, within] = at(one, metric) ?? [0, null];
      return [mean - (within ?? 0), mean + (within ?? 0)] as const;
    };
    const [[x1, x2], [y1, y2]] = [ends(this.x), ends(this.y)];
    const whiskers = [
      s("line", { x1: left(x1), x2: left(x2), y1: y, y2: y }),
      s("line", { x1: x, x2: x, y1: top(y1), y2: top(y2) }),
    ];
    const label = this.label(one);
    const isRight = x > this.width() / 2;
    const [side, word] = [isRight ? "end" : "start", one.values[0] ?? ""];
    const isFree = written.every(
      ([a, b]) => Math.abs(a - x) > 4 * APART || Math.abs(b - y) > APART,
    );
    if (isFree) written.push([x, y]);
    const name = isFree && this.runs.keys.length === 1 && this.runs.points.length <= 12;
    return s(
      "a",
      {
        class: isBest ? "dot best" : "dot",
        href: address(one.runs[0]),
        "aria-label": `${label}: look into its first run`,
        onmousemove: (event: MouseEvent) => this.tell(one, event),
        onmouseleave: () => hideTip(),
      },
      ...whiskers,
      s("circle", { cx: x, cy: y, r: isBest ? 6 : 4.5 }),
      name && s("text", { x: x + (isRight ? -9 : 9), y: y - 7, "text-anchor": side }, word),
    );
  }

  private tell(one: Point, event: MouseEvent): void {
    const lines = [this.x, this.y].map((metric) => {
      const of = this.runs.metrics[metric];
      return tipLine(null, of ? named(of) : "", written(at(one, metric)), true);
    });
    showTip(
      event.clientX,
      event.clientY,
      h("div", { class: "tip-head" }, this.label(one)),
      ...lines,
    );
  }

  private label(one: Point): string {
    return one.values.map((value, at) => `${last(this.runs.keys[at] ?? "")} ${value}`).join(", ");
  }

  /** A scale from the least to the most of a metric, with its intervals, and round values on it. */
  private scale(
    known: Point[],
    metric: number,
  ): { part: (value: number) => number; ticks: number[] } {
    const ends = known.flatMap((one) => {
      const [mean, within] = at(one, metric) ?? [0, null];
      return [mean - (within ?? 0), mean + (within ?? 0)];
    });
    let [low, high] = [Math.min(...ends), Math.max(...ends)];
    // What is nearly all of the way to zero is drawn from there.
    if (low > 0 && low < 0.5 * high) low = 0;
    if (!(high > low)) [low, high] = [low - Math.abs(low || 1) / 2, high + Math.abs(high || 1) / 2];
    const step = rounded((high - low) / 5);
    const first = Math.floor(low / step) * step;
    const count = Math.max(1, Math.ceil((high - first) / step - 1e-9));
    const ticks = Array.from({ length: count + 1 }, (_, at) => first + at * step);
    return { part: (value) => (value - first) / (count * step), ticks };
  }

  private drawRows(): void {
    const { keys, metrics, points } = this.runs;
    const value = (one: Point, column: number): number | string =>
      column < keys.length
        ? sortable(one.values[column] ?? "")
        : (at(one, column - keys.length)?.[0] ?? NaN);
    const order = [...points];
    const { order: column } = this;
    if (column !== null) {
      order.sort((a, b) => compare(value(a, column), value(b, column)) * (this.falling ? -1 : 1));
    }
    const rows = order
      .slice(0, ROWS)
      .map((one) => [
        ...one.values,
        one.error ? h("span", { class: "verdict-broken" }, one.error) : opens(one),
        ...metrics.map((_, metric) => written(at(one, metric))),
      ]);
    const heads = [...keys, "runs", ...metrics.map(named)];
    const made = table("Points with their metrics", heads, rows);
    made.querySelectorAll("thead th").forEach((head, column) => {
      if (column !== keys.length) this.sorts(head, column < keys.length ? column : column - 1);
    });
    this.rows.replaceChildren(made);
    const hidden = points.length - Math.min(ROWS, points.length) + this.runs.left_out;
    text(
      this.more,
      hidden > 0 ? `${hidden} more points are not listed; the table's file has all.` : "",
    );
  }

  private sorts(head: Element, column: number): void {
    const on = this.order === column;
    const onclick = () => {
      this.falling = on ? !this.falling : column >= this.runs.keys.length;
      this.order = column;
      this.drawRows();
    };
    if (on) head.setAttribute("aria-sort", this.falling ? "descending" : "ascending");
    head.replaceChildren(
      h("button", { class: on ? "sort on" : "sort", onclick }, head.textContent),
    );
  }
}

/** Where values are in the picture, and the places at which names are written. */
interface Room {
  left: (value: number) => number;
  top: (value: number) => number;
  written: (readonly [number, number])[];
}

/** The result of a point in a metric; `null` where nothing was measured. */
const at = (one: Point, metric: number): [number, number | null] | null =>
  one.results[metric] ?? null;

const named = (metric: { name: string; unit: string }): string =>
  metric.unit ? `${metric.name}, ${metric.unit}` : metric.name;

const last = (key: string): string => key.split(".").slice(-2).join(".");

function written(result: [number, number | null] | null): string {
  if (!result) return UNKNOWN;
  const [mean, within] = result;
  return within ? `${digits(mean)} ± ${digits(within)}` : digits(mean);
}

const short = (value: number): string =>
  digits(Math.abs(value) < 1e-12 ? 0 : value).replace(/\.0+$/, "");

const address = (run: number | undefined): string | null =>
  run === undefined ? null : `/run/${run}/`;

/** Links to the runs of a point. */
function opens(one: Point): HTMLElement {
  const links = one.runs
    .slice(0, LISTED)
    .map((run, at) => h("a", { href: address(run), title: `Look into run ${run}` }, `${at + 1}`));
  const rest = one.runs.slice(LISTED);
  const first = rest[0] ?? 0;
  const number = h("input", {
    type: "number",
    min: LISTED + 1,
    max: one.runs.length,
    "aria-label": `One of ${one.runs.length} runs`,
    placeholder: `${LISTED + 1}–${one.runs.length}`,
    onchange: () => {
      location.href = address(first + Number(number.value) - LISTED - 1) ?? "";
    },
  });
  return h("span", { class: "opens" }, ...links, rest.length > 0 && number);
}

/** A value with a unit sorts by its number. */
const sortable = (value: string): number | string => {
  const number = Number.parseFloat(value);
  return Number.isNaN(number) ? value : number;
};

function compare(a: number | string, b: number | string): number {
  if (typeof a === "number" && typeof b === "number") return (a || 0) - (b || 0);
  return String(a).localeCompare(String(b));
}

/** The next of 1, 2 and 5 times a power of ten. */
function rounded(step: number): number {
  const power = 10 ** Math.floor(Math.log10(step));
  return [1, 2, 5, 10].map((times) => times * power).find((one) => one >= step * 0.999) ?? step;
}
