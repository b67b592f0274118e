// Series over time, by uPlot: stacked areas or lines, a limit, marks, a cursor that keys move too.
import uPlot from "uplot";
import { h, say } from "./dom";
import { clock } from "./format";
import { ink, onColour } from "./palette";
import { hideTip, showTip, tipLine } from "./tip";

export interface Series {
  name: string;
  colour: string;
  values: (number | null)[];
  dashed?: boolean;
}

export interface Drawing {
  t: number[];
  series: Series[];
  stacked: boolean;
  /** A value drawn as a line, such as the rate of the link. */
  limit: { name: string; value: number } | null;
  /** The instants at the left and the right end, in milliseconds. */
  from: number;
  to: number;
  /** The instant that the user chose. */
  instant: number | null;
  marks: readonly { t: number; level: string }[];
  write: (value: number | null) => string;
}

type Options = { label: string; height: number; onpick?: (t: number, series: number) => void };

/** A chart that is made anew only when its series change. */
export class Chart {
  readonly element: HTMLElement;
  private plot: uPlot | null = null;
  private drawing: Drawing | null = null;
  private shape = "";
  private at: number | null = null;
  private series = 0;

  constructor(private readonly options: Options) {
    this.element = h("div", {
      class: "chart",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "chart",
      "aria-label": options.label,
      onkeydown: (event: KeyboardEvent) => this.key(event),
      onblur: () => hideTip(),
      onmouseleave: () => {
        this.at = null;
        hideTip();
      },
      onclick: () => this.pick(),
    });
    new ResizeObserver(() => this.resize()).observe(this.element);
  }

  /** Draws; returns soon if the chart is not visible. */
  draw(drawing: Drawing): void {
    this.drawing = drawing;
    if (this.element.clientWidth === 0) return;
    const shape = JSON.stringify([
      drawing.stacked,
      ink("text"),
      drawing.limit !== null,
      drawing.series.map((one) => [one.name, one.colour, one.dashed]),
    ]);
    const data = columns(drawing);
    if (shape !== this.shape || !this.plot) {
      this.plot?.destroy();
      this.plot = new uPlot(this.make(drawing), data, this.element);
      this.shape = shape;
    } else {
      this.plot.setData(data, false);
    }
    this.scale(drawing);
  }

  private scale(drawing: Drawing): void {
    const { from, to, limit } = drawing;
    const most = highest(drawing);
    // A limit far above all that is drawn would press it flat.
    const least = limit && limit.value < FAR * most ? limit.value : 0;
    this.plot?.batch(() => {
      this.plot?.setScale("x", { min: from / 1000, max: to / 1000 });
      this.plot?.setScale("y", { min: 0, max: rounded(Math.max(most, least)) });
    });
  }

  private resize(): void {
    const width = this.element.clientWidth;
    if (!this.plot && this.drawing) this.draw(this.drawing);
    else if (this.plot && width > 0 && width !== this.plot.width) {
      this.plot.setSize({ width, height: this.options.height });
    }
  }

  private make(drawing: Drawing): uPlot.Options {
    const [text, line] = [ink("muted"), ink("line")];
    const axis = {
      stroke: text,
      font: FONT,
      ticks: { stroke: line, width: 1, size: 4 },
      grid: { stroke: line, width: 1 },
    };
    return {
      width: this.element.clientWidth,
      height: this.options.height,
      padding: [10, RIGHT, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { show: false }, y: false },
      scales: { x: { time: true, auto: false }, y: { auto: false } },
      axes: [
        { ...axis, size: 30, space: 76, values: (_, splits) => instants(splits) },
        {
          ...axis,
          size: LEFT,
          space: 34,
          values: (_, splits) => splits.map((value) => short(this.drawing?.write(value) ?? "")),
        },
      ],
      series: [
        {},
        ...drawing.series.map((one) => curve(one, drawing.stacked)),
        ...(drawing.limit
          ? [{ stroke: text, width: 1.5, dash: [6, 4], points: { show: false } }]
          : []),
      ],
      bands: drawing.stacked
        ? drawing.series.slice(1).map((_, i) => ({ series: [i + 2, i + 1] as [number, number] }))
        : [],
      hooks: {
        setCursor: [(plot) => this.moved(plot)],
        draw: [(plot) => this.drawMarks(plot), (plot) => this.drawNames(plot)],
      },
    };
  }

  private drawMarks(plot: uPlot): void {
    const { drawing } = this;
    if (!drawing) return;
    const { ctx } = plot;
    const { left, top, width, height } = plot.bbox;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    const line = (t: number, colour: string, dash: number[]) => {
      const x = Math.round(plot.valToPos(t / 1000, "x", true)) + 0.5;
      ctx.strokeStyle = colour;
      ctx.setLineDash(dash);
      ctx.lineWidth = devicePixelRatio;
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, top + height);
      ctx.stroke();
    };
    for (const mark of drawing.marks) line(mark.t, ink(levelInk(mark.level)), [3, 3]);
    if (drawing.instant !== null) line(drawing.instant, ink("accent"), []);
    ctx.restore();
  }

  /** Writes the names of a stack into the right ends of its areas, where they fit. */
  private drawNames(plot: uPlot): void {
    const { drawing } = this;
    if (!drawing?.stacked) return;
    const { ctx } = plot;
    const { left, width } = plot.bbox;
    const at = lastWithin(drawing);
    if (at < 0) return;
    const ratio = devicePixelRatio;
    const x = Math.min(
      left + width,
      Math.round(plot.valToPos((drawing.t[at] ?? 0) / 1000, "x", true)),
    );
    ctx.save();
    ctx.font = `600 ${11 * ratio}px system-ui, sans-serif`;
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    let sum = 0;
    for (const one of drawing.series) {
      const value = one.values[at] ?? 0;
      const [low, high] = [sum, (sum += value)].map((y) => plot.valToPos(y, "y", true));
      const fits = (low ?? 0) - (high ?? 0) >= 13 * ratio;
      if (!fits || ctx.measureText(one.name).width > width / 3) continue;
      ctx.fillStyle = onColour(one.colour);
      ctx.fillText(one.name, x - 7 * ratio, ((low ?? 0) + (high ?? 0)) / 2);
    }
    ctx.restore();
  }

  private moved(plot: uPlot): void {
    const { left, top, idx } = plot.cursor;
    if (left === undefined || left < 0 || idx === null || idx === undefined) return hideTip();
    this.at = idx;
    if (top !== undefined && top >= 0) this.series = this.below(plot.posToVal(top, "y"), idx);
    const box = plot.over.getBoundingClientRect();
    this.tell(box.left + left, box.top + (top ?? 0));
  }

  /** Returns the series at a height: in a stack the area, else the nearest line. */
  private below(value: number, at: number): number {
    const { drawing } = this;
    if (!drawing) return 0;
    let [sum, nearest, distance] = [0, 0, Infinity];
    for (const [index, one] of drawing.series.entries()) {
      const here = one.values[at] ?? 0;
      sum = drawing.stacked ? sum + here : here;
      if (drawing.stacked && value <= sum) return index;
      if (Math.abs(sum - value) < distance) [nearest, distance] = [index, Math.abs(sum - value)];
    }
    return nearest;
  }

  private tell(x: number, y: number): void {
    const { drawing, at } = this;
    if (!drawing || at === null) return;
    const one = drawing.series[this.series];
    if (!one) return;
    const lines = drawing.series
      .map((other, index) => [other, index] as const)
      .filter(([other, index]) => index === this.series || (other.values[at] ?? 0) > 0);
    const shown = lines.length <= TIP_LINES ? lines : lines.filter(([, i]) => i === this.series);
    const total = drawing.series.reduce((sum, other) => sum + (other.values[at] ?? 0), 0);
    showTip(
      x,
      y,
      h("div", { class: "tip-head" }, clock(drawing.t[at] ?? 0)),
      ...shown
        .reverse()
        .map(([other, index]) =>
          tipLine(
            other.colour,
            other.name,
            drawing.write(other.values[at] ?? null),
            index === this.series,
          ),
        ),
      drawing.stacked ? tipLine(null, "all classes", drawing.write(total)) : null,
    );
  }

  private key(event: KeyboardEvent): void {
    const { drawing, plot } = this;
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    const other = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (event.key === "Enter") return this.pick();
    if (event.key === "Escape") return hideTip();
    if (!drawing || !plot || (step === undefined && other === undefined)) return;
    event.preventDefault();
    const last = drawing.t.length - 1;
    this.at = Math.max(0, Math.min(last, (this.at ?? last + 1) + (step ?? 0)));
    this.series = (this.series + (other ?? 0) + drawing.series.length) % drawing.series.length;
    const left = plot.valToPos((drawing.t[this.at] ?? 0) / 1000, "x");
    const box = plot.over.getBoundingClientRect();
    this.tell(box.left + left, box.top + 20);
    const one = drawing.series[this.series];
    say(
      `${clock(drawing.t[this.at] ?? 0)}, ${one?.name ?? ""}: ` +
        drawing.write(one?.values[this.at] ?? null),
    );
  }

  private pick(): void {
    const t = this.at === null ? undefined : this.drawing?.t[this.at];
    if (t !== undefined) this.options.onpick?.(t, this.series);
  }
}

const FONT = "11px system-ui, sans-serif";
/** The width of the vertical axis, and the margin at the right, of everything over time. */
export const LEFT = 76;
export const RIGHT = 30;

/** Writes the instants of an axis, in seconds; with fractions where there are several a second. */
function instants(splits: number[]): string[] {
  const fine = (splits[1] ?? 0) - (splits[0] ?? 0) < 0.999;
  return splits.map((t) => clock(t * 1000, fine).replace(/\.0+$|(\.\d*?)0+$/, "$1"));
}

/** Writes the value of an axis without zeros behind the point. */
export const short = (value: string): string => value.replace(/\.0+(?= )/, "");

/** The most lines of the box; with more classes it has only the one below the pointer. */
const TIP_LINES = 14;

const levelInk = (level: string): string =>
  /critical|error/.test(level) ? "bad" : level === "warning" ? "warn" : "muted";

/** Returns the columns that uPlot draws; in a stack each series is added to those below it. */
function columns(drawing: Drawing): uPlot.AlignedData {
  const rows: (number | null)[][] = [drawing.t.map((t) => t / 1000)];
  let below: number[] | null = null;
  for (const one of drawing.series) {
    if (!drawing.stacked) {
      rows.push(one.values);
      continue;
    }
    const sum: number[] = one.values.map((value, i) => (value ?? 0) + (below?.[i] ?? 0));
    rows.push(sum);
    below = sum;
  }
  if (drawing.limit) rows.push(drawing.t.map(() => drawing.limit?.value ?? null));
  return rows as uPlot.AlignedData;
}

function curve(one: Series, stacked: boolean): uPlot.Series {
  return stacked
    ? { stroke: ink("panel"), width: 1.25, fill: one.colour, points: { show: false } }
    : {
        stroke: one.colour,
        points: { show: false },
        ...(one.dashed ? { width: 2.25, dash: [6, 4] } : { width: 1.5 }),
      };
}

/** A limit so many times higher than what is drawn is not drawn. */
const FAR = 3;

/** Returns the last column that is visible; -1 if none is. */
function lastWithin(drawing: Drawing): number {
  let at = drawing.t.length - 1;
  while (at >= 0 && (drawing.t[at] ?? 0) > drawing.to) at -= 1;
  return at;
}

/** Returns the highest value that is visible. */
function highest(drawing: Drawing): number {
  let most = 0;
  drawing.t.forEach((t, i) => {
    if (t < drawing.from || t > drawing.to) return;
    const here = drawing.series.map((one) => one.values[i] ?? 0);
    most = Math.max(most, drawing.stacked ? here.reduce((a, b) => a + b, 0) : Math.max(0, ...here));
  });
  return most;
}

/** Returns a rounded value above another. */
function rounded(most: number): number {
  if (most <= 0) return 1;
  const decade = 10 ** Math.floor(Math.log10(most * 1.04));
  return (Math.ceil(((most * 1.04) / decade) * 10) * decade) / 10;
}
