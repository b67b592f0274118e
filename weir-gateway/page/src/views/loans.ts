// Who lends to whom: lenders at the left, borrowers at the right, bands as wide as what flows.
import { h, s, table, type Child } from "../dom";
import { rate } from "../format";
import type { Store } from "../store";
import { hideTip, showTip, tipLine } from "../tip";
import { panel } from "./panel";

/** The most loans drawn; the table has all. */
const DRAWN = 16;
/** Milliseconds between two pictures: quicker ones cannot be read. */
const PACE = 1000;
const BAND = 16;
/** The width of the picture, and of what stands beside the bands. */
const [WIDTH_MIN, WIDTH_MAX] = [300, 680];
/** So many of all loans on the line make bands as high as they get. */
const FULL = 1 / 8;

interface Loan {
  lender: number;
  borrower: number;
  bps: number;
}

export class Loans {
  readonly element: HTMLElement;
  private readonly picture = h("div", { class: "flow" });
  private readonly empty = h("p", { class: "empty" });
  private readonly numbers = h("div");
  private drawn = 0;
  private width = WIDTH_MAX;
  private side = 150;

  constructor(private readonly store: Store) {
    const details = h(
      "details",
      { class: "numbers", ontoggle: () => this.draw() },
      h("summary", {}, "As a table"),
      this.numbers,
    );
    this.element = panel(
      "Loans",
      [h("span", { class: "muted" }, "lender to borrower")],
      this.picture,
      this.empty,
      details,
    );
    this.element.classList.add("loans");
    store.on("sample", () => {
      if (performance.now() - this.drawn >= PACE) this.draw();
    });
    store.on(["look", "about", "theme"], () => this.draw());
  }

  private loans(): Loan[] {
    const rows = this.store.now.loans.map(([borrower, lender, bps]) => ({ lender, borrower, bps }));
    return rows.filter((loan) => loan.bps >= 1).sort((a, b) => b.bps - a.bps);
  }

  private name(index: number): string {
    return index < 0 ? "the link" : (this.store.names[index] ?? "");
  }

  private draw(): void {
    this.drawn = performance.now();
    const loans = this.loans();
    this.element.hidden = loans.length === 0 && !this.store.lends;
    this.empty.textContent = loans.length > 0 ? "" : "No class borrows now.";
    this.picture.replaceChildren(...(loans.length > 0 ? [this.flow(loans.slice(0, DRAWN))] : []));
    const rows = loans.map((loan) => [
      this.name(loan.lender),
      this.name(loan.borrower),
      rate(loan.bps),
    ]);
    this.numbers.replaceChildren(table("Loans", ["lender", "borrower", "rate"], rows));
  }

  private flow(loans: Loan[]): SVGElement {
    const link = this.store.direction?.rate_bps ?? 0;
    const total = Math.max(
      link * FULL,
      loans.reduce((sum, loan) => sum + loan.bps, 0),
    );
    this.width = Math.min(WIDTH_MAX, Math.max(WIDTH_MIN, this.picture.clientWidth - 16));
    this.side = this.width < 480 ? 96 : 150;
    const lenders = stack(loans, (loan) => loan.lender, total);
    const borrowers = stack(loans, (loan) => loan.borrower, total);
    const height = Math.max(lenders.height, borrowers.height);
    const words = loans
      .map(
        (loan) =>
          `${this.name(loan.lender)} lends ${rate(loan.bps)} to ` + this.name(loan.borrower),
      )
      .join("; ");
    const children: Child[] = loans.map((loan) => this.band(loan, lenders, borrowers));
    for (const [side, ends] of [
      ["left", lenders],
      ["right", borrowers],
    ] as const) {
      for (const [index, end] of ends.ends) children.push(...this.end(side, index, end));
    }
    return s(
      "svg",
      {
        viewBox: `0 0 ${this.width} ${height}`,
        width: this.width,
        height,
        role: "img",
        "aria-label": words,
      },
      ...children,
    );
  }

  private band(loan: Loan, lenders: Side, borrowers: Side): SVGElement {
    const [from, to] = [
      lenders.place(loan.lender, loan.bps),
      borrowers.place(loan.borrower, loan.bps),
    ];
    const [left, right, middle] = [this.side, this.width - this.side, this.width / 2];
    const d =
      `M${left} ${from.y}C${middle} ${from.y} ${middle} ${to.y} ${right} ${to.y}` +
      `v${to.size}C${middle} ${to.y + to.size} ${middle} ${from.y + from.size} ${left} ` +
      `${from.y + from.size}z`;
    const colour = this.store.colours[loan.borrower] ?? "";
    return s("path", {
      d,
      class: "band",
      fill: colour,
      onmousemove: (event: MouseEvent) =>
        showTip(
          event.clientX,
          event.clientY,
          tipLine(
            colour,
            `${this.name(loan.lender)} lends to ${this.name(loan.borrower)}`,
            rate(loan.bps),
            true,
          ),
        ),
      onmouseleave: () => hideTip(),
    });
  }

  private end(side: "left" | "right", index: number, end: End): SVGElement[] {
    const x = side === "left" ? this.side - 8 : this.width - this.side;
    const text =
      side === "left"
        ? { x: this.side - 16, anchor: "end" }
        : { x: this.width - this.side + 16, anchor: "start" };
    const fill = this.store.colours[index] ?? "var(--muted)";
    const name = this.name(index);
    const shown = name.length > 18 ? `${name.slice(0, 17)}…` : name;
    return [
      s("rect", { x, y: end.top, width: 8, height: end.size, rx: 2, fill }),
      s("text", { x: text.x, y: end.top + end.size / 2 - 1, "text-anchor": text.anchor }, shown),
      s(
        "text",
        { x: text.x, y: end.top + end.size / 2 + 12, "text-anchor": text.anchor, class: "small" },
        rate(end.bps),
      ),
    ];
  }
}

interface End {
  top: number;
  size: number;
  bps: number;
  used: number;
}
interface Side {
  ends: Map<number, End>;
  height: number;
  place: (index: number, bps: number) => { y: number; size: number };
}

/** Stacks the ends of one side, each as high as all its loans. */
function stack(loans: Loan[], of: (loan: Loan) => number, total: number): Side {
  const ends = new Map<number, End>();
  for (const loan of loans) {
    const end = ends.get(of(loan)) ?? { top: 0, size: 0, bps: 0, used: 0 };
    end.bps += loan.bps;
    ends.set(of(loan), end);
  }
  const scale = (BAND * 7) / total;
  let top = 6;
  for (const end of ends.values()) {
    end.size = Math.max(3, end.bps * scale);
    const pad = Math.max(0, 30 - end.size) / 2;
    end.top = top + pad;
    top += end.size + 2 * pad + 8;
  }
  return {
    ends,
    height: top,
    place: (index, bps) => {
      const end = ends.get(index);
      if (!end) return { y: 0, size: 0 };
      const size = (end.size * bps) / end.bps;
      const y = end.top + end.used;
      end.used += size;
      return { y, size };
    },
  };
}
