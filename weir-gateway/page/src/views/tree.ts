// The tree of classes as the policy has it: each with its rate against share and ceiling, delays,
// backlog and drops. Only the rows that are visible are in the document, so thousands stay quick.
import { choice, h, set, text } from "../dom";
import { bytes, clock, delay, percent, pps, rate, type Field } from "../format";
import type { Store } from "../store";
import { hideTip, showTip, tipLine } from "../tip";

/** The height of a row; page.css has the same. */
const ROW = 32;
/** Rows above and below the visible ones. */
const SPARE = 4;

type Order = "policy" | Field;

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
  index: number;
}

const COLUMNS: readonly [string, Order, string][] = [
  ["Class", "policy", "in the order of the policy"],
  ["Rate", "sent", "by rate"],
  ["Share", "policy", ""],
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
  private top = 0;
  private sorted = 0;

  constructor(
    private readonly store: Store,
    root: HTMLElement,
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
              ["0", "all"],
              ["10", "top 10"],
              ["25", "top 25"],
              ["100", "top 100"],
            ],
            "0",
            (value) => {
              this.top = Number(value);
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
    this.children = classes.map(() => []);
    this.depths = [];
    classes.forEach((one, index) => {
      this.depths.push(one.parent === null ? 0 : (this.depths[one.parent] ?? 0) + 1);
      if (one.parent !== null) this.children[one.parent]?.push(index);
    });
    this.drawHead();
    this.list();
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
                  title: `Sort ${words}`,
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
    const kept = this.kept();
    this.visible = [];
    const field = this.order === "policy" ? null : this.order;
    const value = (index: number) => (field ? this.store.now.value(index, field) || 0 : 0);
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
    const all = this.store.classes.length;
    text(this.counted, this.visible.length === all ? `${all}` : `${this.visible.length} of ${all}`);
    this.grid.setAttribute("aria-rowcount", String(this.visible.length + 1));
    this.space.style.height = `${this.visible.length * ROW}px`;
    this.draw();
  }

  /** Returns the classes that search and number leave, with those above them; `null` for all. */
  private kept(): Set<number> | null {
    const { classes, now } = this.store;
    if (!this.search && !this.top) return null;
    let found = classes.flatMap((one, index) =>
      one.name.toLowerCase().includes(this.search) ? [index] : [],
    );
    if (this.top) {
      const field = this.order === "policy" ? "sent" : this.order;
      const value = (index: number) => now.value(index, field) || 0;
      found = found
        .filter((index) => classes[index]?.leaf)
        .sort((a, b) => value(b) - value(a))
        .slice(0, this.top);
    }
    const kept = new Set<number>();
    for (const index of found) {
      for (let at: number | null = index; at !== null; at = classes[at]?.parent ?? null) {
        kept.add(at);
      }
    }
    return kept;
  }

  private update(): void {
    const resort = this.order !== "policy" || this.top > 0;
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
      cells: [number, ...cells.slice(1)],
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
      row.fold.style.marginLeft = `${(this.depths[index] ?? 0) * 14}px`;
    }
    const open = !this.folded.has(one.name);
    const inner = (this.children[index]?.length ?? 0) > 0;
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
      rate(one?.share_bps),
      delay(now.value(index, "p50")),
      delay(now.value(index, "p99")),
      bytes(now.value(index, "backlog")),
      pps(now.value(index, "dropped")),
    ];
    row.cells.forEach((cell, column) => text(cell, values[column] ?? ""));
    row.cells[5]?.classList.toggle("bad", now.value(index, "dropped") > 0);
    row.cells[5]?.classList.toggle("muted", !(now.value(index, "dropped") > 0));
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
      tipLine(null, "borrowed", rate(now.value(index, "borrowed"))),
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
