// The tree of classes as the policy has it: each with its rate against share and ceiling, delays,
// backlog and drops. Only the rows that are visible are in the document, so thousands stay quick.
import { choice, h, set, text } from "../dom";
import { bytes, clock, delay, percent, pps, rate, type Field } from "../format";
import type { Health } from "../health";
import { Level } from "../judge";
import type { Store } from "../store";
import { hideTip, showTip, tipLine } from "../tip";

/** The height of a row; page.css has the same. */
const ROW = 32;
/** Rows above and below the visible ones. */
const SPARE = 4;

type Order = "policy" | "trouble" | Field;

/** What the list has: all classes as a tree, or some of them, each by itself. */
type Chosen = "all" | "latest" | "ceiling" | number;

/** The most classes of a list that is not a tree, unless it says how many. */
const LISTED = 100;
/** A class that sends so much of its ceiling is near it. */
const NEAR = 0.9;

interface Row {
  element: HTMLElement;
  fold: HTMLElement;
  swatch: HTMLElement;
  name: HTMLElement;
  bar: HTMLElement;
  fill: HTMLElement;
  offered: HTMLElement;
  share: HTMLElement;
  cells: HTMLElement[];
  dot: HTMLElement;
  figure: HTMLElement;
  index: number;
}

/** Levels as the style sheet names them, and the signs of those that are not well. */
const LEVELS: Record<Level, string> = {
  [Level.Idle]: "idle",
  [Level.Well]: "well",
  [Level.Short]: "short",
  [Level.Trouble]: "trouble",
};
const SIGNS: Record<string, string> = { well: "✓", short: "~", trouble: "!" };

/** What the mark of a class is, and the figure beside it. */
const MARK_WORDS =
  "How much a class gets of what it asks for, or, if it has a promise, what is measured of what is " +
  "promised. ";

const COLUMNS: readonly [string, Order, string][] = [
  ["Class", "policy", "in the order of the policy"],
  ["Rate", "sent", "by rate"],
  ["Gets", "trouble", "by trouble, the worst first"],
  ["p50", "p50", "by median delay"],
  ["p99", "p99", "by 99 % delay"],
  ["Backlog", "backlog", "by backlog"],
  ["Drops", "dropped", "by drops"],
];

export class Tree {
  private readonly head: HTMLElement;
  private readonly grid: HTMLElement;
  private readonly space: HTMLElement;
  private readonly counted = h("span", { class: "muted" });
  private readonly folded = new Set<string>();
  private rows: Row[] = [];
  private visible: number[] = [];
  private children: number[][] = [];
  private depths: number[] = [];
  private search = "";
  private order: Order = "policy";
  private chosen: Chosen = "all";
  private sorted = 0;
  private readonly seen = new Map<string, number>();

  constructor(
    private readonly store: Store,
    root: HTMLElement,
    private readonly health: Health,
  ) {
    const input = h("input", {
      type: "search",
      placeholder: "Search classes",
      "aria-label": "Search classes",
      oninput: () => {
        this.search = input.value.trim().toLowerCase();
        this.list();
      },
    });
    this.head = h("div", { class: "row head", role: "row" });
    this.space = h("div", { class: "space", role: "presentation" });
    this.grid = h(
      "div",
      {
        class: "rows",
        role: "treegrid",
        tabindex: 0,
        "aria-label": "Classes",
        onscroll: () => this.draw(),
        onkeydown: (event: KeyboardEvent) => this.key(event),
        onmouseleave: () => hideTip(),
      },
      h("div", { class: "sticky", role: "rowgroup" }, this.head),
      h("div", { role: "rowgroup", class: "body" }, this.space),
    );
    root.append(
      h(
        "header",
        {},
        h("h2", {}, "Classes"),
        this.counted,
        h(
          "div",
          { class: "controls" },
          input,
          choice(
            "Show",
            [
              ["all", "all"],
              ["10", "top 10"],
              ["25", "top 25"],
              ["100", "top 100"],
              ["latest", "the latest"],
              ["ceiling", "near their ceiling"],
            ],
            "all",
            (value) => {
              this.chosen = Number(value) || (value as Chosen);
              this.list();
            },
          ),
          h("button", { class: "quiet", onclick: () => this.foldAll() }, "Fold"),
        ),
      ),
      this.grid,
    );
    new ResizeObserver(() => this.draw()).observe(this.grid);
    store.on(["about", "theme"], () => this.renew());
    store.on("sample", () => this.update());
    store.on("look", () => {
      this.reveal();
      this.draw();
    });
  }

  private renew(): void {
    const { classes } = this.store;
    this.note();
    this.children = classes.map(() => []);
    this.depths = [];
    classes.forEach((one, index) => {
      this.depths.push(one.parent === null ? 0 : (this.depths[one.parent] ?? 0) + 1);
      if (one.parent !== null) this.children[one.parent]?.push(index);
    });
    this.drawHead();
    this.list();
  }

  /** Notes when classes were first seen; those of the first look are old. */
  private note(): void {
    const { store } = this;
    const [first, is] = [this.seen.size === 0, store.now.t || store.about?.now || 0];
    for (const name of store.names) if (!this.seen.has(name)) this.seen.set(name, first ? 0 : is);
  }

  private drawHead(): void {
    this.head.replaceChildren(
      ...COLUMNS.map(([name, order, words], column) => {
        const sorts = words !== "" && this.order === order;
        const cell = h("div", {
          role: "columnheader",
          class: `c${column}`,
          "aria-sort": sorts && order !== "policy" ? "descending" : null,
        });
        cell.append(
          words === ""
            ? name
            : h(
                "button",
                {
                  class: sorts ? "sort on" : "sort",
                  title: `${order === "trouble" ? MARK_WORDS : ""}Sort ${words}`,
                  onclick: () => {
                    this.order = order;
                    this.renew();
                  },
                },
                name,
              ),
        );
        return cell;
      }),
    );
  }

  /** Makes the list of classes to show from search, folds, order and number. */
  private list(): void {
    if (this.chosen !== "all") return this.listSome(this.some());
    const kept = this.kept();
    this.visible = [];
    const field = this.order === "policy" ? null : this.order;
    const value = (index: number) => this.value(index, this.order);
    const walk = (siblings: number[]) => {
      const order = field ? [...siblings].sort((a, b) => value(b) - value(a)) : siblings;
      for (const index of order) {
        if (kept && !kept.has(index)) continue;
        this.visible.push(index);
        if (!this.folded.has(this.store.names[index] ?? "") || this.search) {
          walk(this.children[index] ?? []);
        }
      }
    };
    walk(this.store.classes.flatMap((one, index) => (one.parent === null ? [index] : [])));
    this.place();
  }

  /** Shows these classes, each by itself. */
  private listSome(indices: number[]): void {
    const wanted = (index: number) =>
      (this.store.names[index] ?? "").toLowerCase().includes(this.search);
    this.visible = indices.filter(wanted);
    this.place();
  }

  /** Returns what classes are sorted by. */
  private value(index: number, order: Order): number {
    if (order === "policy") return 0;
    if (order === "trouble") return this.health.trouble(index);
    return this.store.now.value(index, order) || 0;
  }

  /** Returns the classes of a list that is no tree, in its order. */
  private some(): number[] {
    const { classes, now } = this.store;
    const leaves = classes.flatMap((one, index) => (one.leaf ? [index] : []));
    const by = (of: (index: number) => number, some: number[]) =>
      some
        .map((index) => [of(index), index] as const)
        .sort(([a], [b]) => b - a)
        .map(([, index]) => index);
    if (this.chosen === "latest") return by((index) => this.since(index), leaves).slice(0, LISTED);
    if (this.chosen === "ceiling") {
      const part = (index: number) =>
        now.value(index, "sent") / (classes[index]?.ceiling_bps ?? Infinity) || 0;
      const near = classes.flatMap((_, index) => (part(index) >= NEAR ? [index] : []));
      return by(part, near).slice(0, LISTED);
    }
    const order = this.order === "policy" ? "sent" : this.order;
    return by((index) => this.value(index, order), leaves).slice(0, this.chosen as number);
  }

  /** Returns since when a class is there, or since when it has had packets. */
  private since(index: number): number {
    const { names, past } = this.store;
    const seen = this.seen.get(names[index] ?? "") ?? 0;
    if (seen > 0) return seen;
    for (let i = 0; i < past.t.length; i++) {
      if (past.value(index, "offered", i) > 0) return past.t[i] ?? 0;
    }
    return 0;
  }

  /** Draws what is visible now. */
  private place(): void {
    const all = this.store.classes.length;
    text(this.counted, this.visible.length === all ? `${all}` : `${this.visible.length} of ${all}`);
    this.grid.setAttribute("aria-rowcount", String(this.visible.length + 1));
    this.space.style.height = `${this.visible.length * ROW}px`;
    this.draw();
  }

  /** Returns the classes that the search leaves, with those above them; `null` for all. */
  private kept(): Set<number> | null {
    const { classes } = this.store;
    if (!this.search) return null;
    const found = classes.flatMap((one, index) =>
      one.name.toLowerCase().includes(this.search) ? [index] : [],
    );
    const kept = new Set<number>();
    for (const index of found) {
      for (let at: number | null = index; at !== null; at = classes[at]?.parent ?? null) {
        kept.add(at);
      }
    }
    return kept;
  }

  private update(): void {
    const resort = this.order !== "policy" || this.chosen !== "all";
    if (resort && performance.now() - this.sorted > 1000) {
      this.sorted = performance.now();
      this.list();
    } else {
      this.draw();
    }
  }

  private draw(): void {
    const first = Math.max(0, Math.floor(this.grid.scrollTop / ROW) - SPARE);
    const room = Math.ceil(this.grid.clientHeight / ROW) + 2 * SPARE;
    const shown = Math.min(room, this.visible.length - first);
    while (this.rows.length < shown) this.rows.push(this.makeRow());
    while (this.rows.length > Math.max(0, shown)) this.rows.pop()?.element.remove();
    this.rows.forEach((row, slot) => this.drawRow(row, first + slot));
  }

  private makeRow(): Row {
    const part = (name: string) => h("div", { class: name });
    const [fill, offered, share] = [part("fill"), part("offered"), part("tick")];
    const bar = h("div", { class: "meter" }, offered, fill, share);
    const fold = h("span", { class: "fold", "aria-hidden": "true" });
    const swatch = h("span", { class: "swatch" });
    const name = h("span", { class: "name" });
    const cells = [1, 2, 3, 4, 5, 6].map((column) =>
      h("div", { role: "gridcell", class: `c${column}` }),
    );
    const number = h("span", { class: "number" });
    cells[0]?.append(bar, number);
    const [dot, figure] = [h("span", { class: "dot-mark" }), h("span", { class: "figure" })];
    cells[1]?.append(dot, figure);
    const element = h(
      "div",
      { class: "row", role: "row" },
      h("div", { role: "rowheader", class: "c0" }, fold, swatch, name),
      ...cells,
    );
    const row: Row = {
      element,
      fold,
      swatch,
      name,
      bar,
      fill,
      offered,
      share,
      cells: [number, ...cells.slice(2)],
      dot,
      figure,
      index: -1,
    };
    element.addEventListener("click", () => this.store.select(row.index));
    fold.addEventListener("click", (event) => {
      event.stopPropagation();
      this.fold(row.index);
    });
    element.addEventListener("mousemove", (event) => this.tell(row.index, event));
    this.space.append(element);
    return row;
  }

  private drawRow(row: Row, place: number): void {
    const index = this.visible[place] ?? 0;
    const { store } = this;
    const one = store.classes[index];
    if (!one) return;
    row.element.style.transform = `translateY(${place * ROW}px)`;
    set(row.element, "aria-rowindex", place + 2);
    if (row.index !== index) {
      row.index = index;
      row.element.id = `class-${index}`;
      row.element.dataset["class"] = one.name;
      text(row.name, one.name);
      set(row.element, "aria-level", (this.depths[index] ?? 0) + 1);
    }
    const depth = this.chosen === "all" ? (this.depths[index] ?? 0) : 0;
    row.fold.style.setProperty("--depth", String(depth));
    const open = !this.folded.has(one.name);
    const inner = this.chosen === "all" && (this.children[index]?.length ?? 0) > 0;
    set(row.element, "aria-expanded", inner ? String(open) : null);
    row.fold.className = inner ? (open ? "fold open" : "fold closed") : "fold";
    row.swatch.style.background = store.colours[index] ?? "";
    row.swatch.classList.toggle("hollow", !one.leaf);
    const chosen = index === store.selected;
    set(row.element, "aria-selected", String(chosen));
    if (chosen) set(this.grid, "aria-activedescendant", row.element.id);
    this.drawValues(row, index);
  }

  private drawValues(row: Row, index: number): void {
    const { now, classes, direction, colours } = this.store;
    const one = classes[index];
    const [sent, offered] = [now.value(index, "sent"), now.value(index, "offered")];
    const most = one?.ceiling_bps ?? direction?.rate_bps ?? Math.max(sent, offered, 1);
    const part = (value: number) => `${Math.min(100, Math.max(0, (100 * (value || 0)) / most))}%`;
    row.fill.style.width = part(sent);
    row.fill.style.background = colours[index] ?? "";
    row.offered.style.width = part(offered);
    row.share.hidden = one?.share_bps === null || one?.share_bps === undefined;
    row.share.style.left = part(one?.share_bps ?? 0);
    const values = [
      rate(sent),
      delay(now.value(index, "p50")),
      delay(now.value(index, "p99")),
      bytes(now.value(index, "backlog")),
      pps(now.value(index, "dropped")),
    ];
    row.cells.forEach((cell, column) => text(cell, values[column] ?? ""));
    this.drawMark(row, index);
  }

  /** Draws how the class is; drops are red only where they are trouble. */
  private drawMark(row: Row, index: number): void {
    const mark = this.health.marks[index];
    const level = LEVELS[mark?.level ?? Level.Idle];
    set(row.dot, "class", `dot-mark ${level}`);
    text(row.dot, SIGNS[level] ?? "");
    text(row.figure, mark?.figure ?? "");
    set(row.figure, "class", level === "trouble" ? "figure bad" : "figure");
    const lost = /loses/.test(mark?.words ?? "") && level === "trouble";
    row.cells[4]?.classList.toggle("bad", lost);
    row.cells[4]?.classList.toggle("muted", !lost);
  }

  private tell(index: number, event: MouseEvent): void {
    const { store } = this;
    const one = store.classes[index];
    if (!one) return;
    const { now } = store;
    const sent = now.value(index, "sent");
    const colour = store.colours[index] ?? "";
    const share = one.share_bps;
    showTip(
      event.clientX,
      event.clientY,
      h("div", { class: "tip-head" }, `${one.name} at ${clock(now.t)}`),
      tipLine(colour, "rate", rate(sent), true),
      tipLine(null, "offered", rate(now.value(index, "offered"))),
      tipLine(
        null,
        "share",
        share === null ? rate(null) : `${rate(share)} (${percent(sent / share)} used)`,
      ),
      tipLine(null, "ceiling", rate(one.ceiling_bps)),
      ...(store.lends ? [tipLine(null, "borrowed", rate(now.value(index, "borrowed")))] : []),
      h("div", { class: "muted" }, this.health.marks[index]?.words ?? ""),
    );
  }

  private fold(index: number): void {
    const name = this.store.names[index] ?? "";
    if (!this.children[index]?.length) return;
    if (!this.folded.delete(name)) this.folded.add(name);
    this.list();
  }

  private foldAll(): void {
    const inner = this.store.names.filter((_, index) => this.children[index]?.length);
    const open = inner.some((name) => !this.folded.has(name));
    inner.forEach((name) => (open ? this.folded.add(name) : this.folded.delete(name)));
    this.list();
  }

  private key(event: KeyboardEvent): void {
    if (event.target !== this.grid) return;
    const at = this.visible.indexOf(this.store.selected);
    const page = Math.max(1, Math.floor(this.grid.clientHeight / ROW) - 2);
    const steps: Record<string, number> = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -this.visible.length,
      End: this.visible.length,
    };
    const step = steps[event.key];
    if (step !== undefined) {
      const place = Math.min(this.visible.length - 1, Math.max(0, at + step));
      this.store.select(this.visible[place] ?? 0);
    } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      this.turn(event.key === "ArrowRight");
    } else {
      return;
    }
    event.preventDefault();
  }

  /** Unfolds a class or goes to its first child; folds it or goes to its parent. */
  private turn(inwards: boolean): void {
    const { selected, classes, names } = this.store;
    const [first] = this.children[selected] ?? [];
    const closed = this.folded.has(names[selected] ?? "");
    if (first !== undefined && closed === inwards) return this.fold(selected);
    const to = inwards ? first : classes[selected]?.parent;
    if (to !== null && to !== undefined) this.store.select(to);
  }

  /** Scrolls to the chosen class. */
  private reveal(): void {
    const place = this.visible.indexOf(this.store.selected);
    if (place < 0) return;
    const [top, height] = [place * ROW, this.grid.clientHeight - ROW];
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    else if (top + ROW > this.grid.scrollTop + height) this.grid.scrollTop = top + ROW - height;
  }
}
