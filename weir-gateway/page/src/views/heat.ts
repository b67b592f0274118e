// The delays of a class over time: a column a second, a row a range of delay, the darker the fewer
// packets. A cell opens the packets behind it.
import { api, type Heat } from "../api";
import { LEFT, RIGHT, short } from "../chart";
import { h, say, table } from "../dom";
import { clock, count, delay } from "../format";
import { heat as colour, ink } from "../palette";
import type { Store } from "../store";
import { hideTip, showTip, tipLine } from "../tip";
import { panel } from "./panel";

const HEIGHT = 200;
const [BOTTOM, TOP] = [22, 8];

export interface Cell {
  name: string;
  from: number;
  to: number;
  min: number;
  max: number;
}

export class HeatMap {
  readonly element: HTMLElement;
  private readonly canvas: HTMLCanvasElement;
  private readonly title = h("span", { class: "muted" });
  private readonly empty = h("p", { class: "empty" });
  private readonly many = h("span", {}, "more");
  private readonly numbers = h("div", {
    class: "scroll",
    tabindex: 0,
    role: "group",
    "aria-label": "Numbers of the heat map",
  });
  private data: Heat = { t: [], edges_us: [], counts: [] };
  private of = "";
  private asked = 0;
  private busy = false;
  private cell: [number, number] | null = null;

  constructor(
    private readonly store: Store,
    private readonly onpick: (cell: Cell) => void,
  ) {
    this.canvas = h("canvas", {
      class: "heat",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "heat map",
      "aria-label": "Delays over time",
      onmousemove: (event: MouseEvent) => this.move(event),
      onmouseleave: () => {
        this.cell = null;
        hideTip();
        this.draw();
      },
      onblur: () => {
        this.cell = null;
        hideTip();
        this.draw();
      },
      onclick: () => this.pick(),
      onkeydown: (event: KeyboardEvent) => this.key(event),
    });
    this.element = panel(
      "Delay",
      [this.title, this.scale()],
      this.canvas,
      this.empty,
      h("details", { class: "numbers" }, h("summary", {}, "As a table"), this.numbers),
    );
    this.element.querySelector("details")?.addEventListener("toggle", () => this.drawTable());
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    store.on(["look", "about"], () => this.ask(true));
    store.on("past", () => this.ask(false));
    store.on("theme", () => this.draw());
  }

  /** Requests what is new, at most each second, or everything for another class or time. */
  private ask(anew: boolean): void {
    const { store } = this;
    const name = store.names[store.selected];
    const direction = store.direction?.name;
    if (!name || !direction || this.busy || !store.tellsPackets) return;
    // Before the history is there, no time is shown.
    if (store.past.t.length === 0) return;
    const [from, to] = store.shown();
    const key = JSON.stringify([direction, name, store.window, store.instant]);
    if (!anew && key === this.of && performance.now() - this.asked < 900) return;
    if (key !== this.of) this.data = { t: [], edges_us: [], counts: [] };
    this.of = key;
    this.asked = performance.now();
    this.busy = true;
    const last = this.data.t.at(-1);
    void this.fetch(
      direction,
      name,
      last === undefined ? from : Math.max(from, last - 1500),
      to,
      key,
    );
  }

  private async fetch(
    direction: string,
    name: string,
    from: number,
    to: number,
    key: string,
  ): Promise<void> {
    try {
      const fresh = await api.heat(direction, name, { from, to: to + 1000 });
      if (key === this.of) this.merge(fresh);
      text(
        this.empty,
        this.data.t.length === 0 ? "No packet of this class left in this time." : "",
      );
    } catch (error) {
      text(this.empty, (error as Error).message);
    } finally {
      this.busy = false;
      text(this.title, `${name}, packets by delay`);
      this.draw();
      if (key !== this.of) this.ask(true);
    }
  }

  private merge(fresh: Heat): void {
    const first = fresh.t[0];
    if (first === undefined) return;
    const kept = this.data.t.findIndex((t) => t >= first);
    const n = kept < 0 ? this.data.t.length : kept;
    const [from] = this.store.shown();
    const start = this.data.t.slice(0, n).findIndex((t) => t >= from - 2000);
    const begin = start < 0 ? n : start;
    this.data = {
      edges_us: fresh.edges_us,
      t: [...this.data.t.slice(begin, n), ...fresh.t],
      counts: [...this.data.counts.slice(begin, n), ...fresh.counts],
    };
  }

  /** Returns the bins to show: those with packets, and one beside them. */
  private bins(): [number, number] {
    let [low, high] = [Infinity, -1];
    for (const row of this.data.counts) {
      row.forEach((n, bin) => {
        if (n > 0) {
          low = Math.min(low, bin);
          high = Math.max(high, bin);
        }
      });
    }
    if (high < 0) return [0, Math.max(1, this.data.edges_us.length - 1)];
    const most = Math.max(1, this.data.edges_us.length - 1);
    return [Math.max(0, low - 2), Math.min(most, Math.max(high + 3, low + 8))];
  }

  private draw(): void {
    const width = this.canvas.clientWidth;
    const context = this.canvas.getContext("2d");
    if (!context || width === 0) return;
    const ratio = devicePixelRatio;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(HEIGHT * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, HEIGHT);
    this.drawAxes(context, width);
    this.drawCells(context, width);
    this.canvas.setAttribute("aria-label", this.words());
  }

  private place(width: number): { x: (t: number) => number; y: (bin: number) => number } {
    const [from, to] = this.store.shown();
    const [low, high] = this.bins();
    return {
      x: (t) => LEFT + ((t - from) / (to - from)) * (width - LEFT - RIGHT),
      y: (bin) => HEIGHT - BOTTOM - ((bin - low) / (high - low)) * (HEIGHT - BOTTOM - TOP),
    };
  }

  private drawAxes(context: CanvasRenderingContext2D, width: number): void {
    const { x, y } = this.place(width);
    const [from, to] = this.store.shown();
    const [low, high] = this.bins();
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = ink("muted");
    context.strokeStyle = ink("line");
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const [us, bin] of roundDelays(this.data.edges_us, low, high)) {
      context.fillText(short(delay(us)), LEFT - 8, y(bin));
      context.beginPath();
      context.moveTo(LEFT, Math.round(y(bin)) + 0.5);
      context.lineTo(width - RIGHT, Math.round(y(bin)) + 0.5);
      context.stroke();
    }
    context.textAlign = "center";
    const ticks = timeTicks(from, to, Math.max(2, Math.floor((width - LEFT) / 90)));
    const half = context.measureText(clock(to)).width / 2;
    for (const t of ticks) {
      context.fillText(clock(t), Math.min(x(t), width - half - 2), HEIGHT - 9);
    }
  }

  private drawCells(context: CanvasRenderingContext2D, width: number): void {
    const { counts } = this.data;
    const { x, y } = this.place(width);
    const [from, to] = this.store.shown();
    const most = Math.max(1, ...counts.map((row) => Math.max(0, ...row)));
    text(this.many, most > 1 ? `${count(most)} packets` : "more");
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, width - LEFT - RIGHT, HEIGHT - BOTTOM);
    context.clip();
    counts.forEach((row, at) => {
      const [begin, end] = this.column(at);
      if (begin > to || end < from) return;
      const [left, right] = [Math.floor(x(begin)), Math.ceil(x(end))];
      row.forEach((n, bin) => {
        if (n === 0) return;
        const [red, green, blue] = colour(part(n, most));
        context.fillStyle = `rgb(${red} ${green} ${blue})`;
        context.fillRect(left, y(bin + 1), Math.max(1, right - left), y(bin) - y(bin + 1) + 0.5);
      });
    });
    if (this.cell) {
      const [begin, end] = this.column(this.cell[0]);
      context.strokeStyle = ink("text");
      context.lineWidth = 2;
      context.strokeRect(
        x(begin),
        y(this.cell[1] + 1),
        Math.max(3, x(end) - x(begin)),
        y(this.cell[1]) - y(this.cell[1] + 1),
      );
    }
    const { instant } = this.store;
    if (instant !== null) {
      context.fillStyle = ink("accent");
      context.fillRect(x(instant), 0, 1.5, HEIGHT - BOTTOM);
    }
    context.restore();
  }

  /** Returns the instants between which the packets of a column left. */
  private column(at: number): [number, number] {
    const { t } = this.data;
    const end = t[at] ?? 0;
    const step = this.store.about?.step_ms ?? 1000;
    return [end - step, end];
  }

  /** A legend of the colours. */
  private scale(): HTMLElement {
    const steps = [0, 0.2, 0.4, 0.6, 0.8, 1].map((place) => {
      const cell = h("i");
      const [red, green, blue] = colour(place);
      cell.style.background = `rgb(${red} ${green} ${blue})`;
      return cell;
    });
    return h("span", { class: "heat-scale", "aria-hidden": "true" }, "1", ...steps, this.many);
  }

  private move(event: MouseEvent): void {
    const box = this.canvas.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    const { x, y } = this.place(box.width);
    const at = this.data.t.findIndex((_, i) => {
      const [begin, end] = this.column(i);
      return px >= x(begin) && px < x(end);
    });
    const [low, high] = this.bins();
    let bin = low;
    while (bin < high - 1 && py < y(bin + 1)) bin += 1;
    this.cell = at < 0 || px < LEFT ? null : [at, bin];
    this.draw();
    if (this.cell) this.tell(event.clientX, event.clientY);
    else hideTip();
  }

  private tell(x: number, y: number): void {
    if (!this.cell) return;
    const [at, bin] = this.cell;
    const name = this.store.names[this.store.selected] ?? "";
    const { edges_us: edges, counts, t } = this.data;
    showTip(
      x,
      y,
      h("div", { class: "tip-head" }, `${name} at ${clock(t[at] ?? 0)}`),
      tipLine(
        null,
        `${delay(edges[bin])} to ${delay(edges[bin + 1] ?? null)}`,
        `${count(counts[at]?.[bin] ?? 0)} packets`,
        true,
      ),
      (counts[at]?.[bin] ?? 0) > 0
        ? h("div", { class: "muted" }, "Click, or press Enter, for its packets")
        : null,
    );
  }

  private key(event: KeyboardEvent): void {
    const moves: Record<string, [number, number]> = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, 1],
      ArrowDown: [0, -1],
      PageUp: [-10, 0],
      PageDown: [10, 0],
    };
    if (event.key === "Enter") return this.pick();
    const move = moves[event.key];
    if (!move || this.data.t.length === 0) return;
    event.preventDefault();
    const [low, high] = this.bins();
    const [at, bin] = this.cell ?? [this.data.t.length - 1 - move[0], this.fullest() - move[1]];
    this.cell = [
      Math.min(this.data.t.length - 1, Math.max(0, at + move[0])),
      Math.min(high - 1, Math.max(low, bin + move[1])),
    ];
    this.draw();
    const { x, y } = this.place(this.canvas.clientWidth);
    const box = this.canvas.getBoundingClientRect();
    this.tell(box.left + x(this.data.t[this.cell[0]] ?? 0), box.top + y(this.cell[1]));
    const { edges_us: edges, counts, t } = this.data;
    const packets = counts[this.cell[0]]?.[this.cell[1]] ?? 0;
    say(
      `${clock(t[this.cell[0]] ?? 0)}, ${delay(edges[this.cell[1]])} to ` +
        `${delay(edges[this.cell[1] + 1] ?? null)}: ${packets} packets`,
    );
  }

  private fullest(): number {
    const row = this.data.counts.at(-1) ?? [];
    return Math.max(0, row.indexOf(Math.max(0, ...row)));
  }

  private pick(): void {
    if (!this.cell) return;
    hideTip();
    const [at, bin] = this.cell;
    // The data may have become shorter since the cell was chosen.
    if (this.data.t[at] === undefined || this.data.edges_us[bin] === undefined) return;
    const [from, to] = this.column(at);
    const { edges_us: edges } = this.data;
    this.onpick({
      name: this.store.names[this.store.selected] ?? "",
      from,
      to,
      min: edges[bin] ?? 0,
      max: edges[bin + 1] ?? Infinity,
    });
  }

  private words(): string {
    const name = this.store.names[this.store.selected] ?? "";
    const total = this.data.counts.reduce((sum, row) => sum + row.reduce((a, b) => a + b, 0), 0);
    return (
      `Delays of ${name} over time: ${count(total)} packets. Arrow keys choose a cell, ` +
      "Enter shows its packets."
    );
  }

  private drawTable(): void {
    const { t, counts, edges_us: edges } = this.data;
    const rows = t
      .map((at, i) => {
        const row = counts[i] ?? [];
        const most = row.indexOf(Math.max(0, ...row));
        const total = row.reduce((a, b) => a + b, 0);
        return [
          clock(at),
          count(total),
          total > 0 ? `${delay(edges[most])} to ${delay(edges[most + 1] ?? null)}` : delay(null),
        ];
      })
      .slice(-60)
      .reverse();
    this.numbers.replaceChildren(
      table("Delays over time", ["time", "packets", "most of them between"], rows),
    );
  }
}

function text(element: Element, value: string): void {
  element.textContent = value;
}

/** Returns where a number of packets stands between one and the most, by its logarithm. */
export function part(n: number, most: number): number {
  return Math.min(1, Math.log(Math.max(1, n)) / Math.log(Math.max(MANY_MIN, most)));
}

/** Fewer packets than this are not many, though there be no more. */
const MANY_MIN = 10;

/** Returns round delays between two edges, each with its place among the bins. */
export function roundDelays(
  edges: readonly number[],
  low: number,
  high: number,
): [number, number][] {
  const [least, most] = [Math.max(1e-3, edges[low] ?? 1), edges[high] ?? 1];
  const steps = most / least > 300 ? [1] : [1, 2, 5];
  const found: [number, number][] = [];
  for (let decade = 10 ** Math.floor(Math.log10(least)); decade <= most; decade *= 10) {
    for (const us of steps.map((step) => step * decade)) {
      const above = edges.findIndex((edge) => edge >= us);
      if (us < least || us > most || above < 1) continue;
      const [below, upper] = [Math.max(1e-3, edges[above - 1] ?? 1), edges[above] ?? 1];
      found.push([us, above - 1 + Math.log(us / below) / Math.log(upper / below)]);
    }
  }
  return found;
}

/** Returns round instants between two, at most `most`. */
export function timeTicks(from: number, to: number, most: number): number[] {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600].map((seconds) => seconds * 1000);
  const step = steps.find((one) => (to - from) / one <= most) ?? 1_200_000;
  const ticks: number[] = [];
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) ticks.push(t);
  return ticks;
}
