// The history of all classes of a direction: a column a second, oldest first, of bounded length.
import type { ClassHistory, History, Sample, Varies } from "./api";
import type { Field } from "./format";

/** Seconds kept: the 15 minutes that the server keeps, and a little more. */
const KEPT = 960;
/** Columns kept of a record or report, which may have more. */
const CAPACITY = 4096;

export const FIELDS: readonly Field[] = [
  "sent",
  "offered",
  "backlog",
  "p50",
  "p99",
  "dropped",
  "borrowed",
];
const NAMES: Record<Field, keyof ClassHistory> = {
  sent: "sent_bps",
  offered: "offered_bps",
  backlog: "backlog_bytes",
  p50: "p50_us",
  p99: "p99_us",
  dropped: "dropped_pps",
  borrowed: "borrowed_bps",
};

/** Packets dropped a second. */
interface Drop {
  reason: string;
  pps: number;
}

/** Borrower, lender (-1 is the link), bit/s. */
export type Loan = [number, number, number];

type Columns = Partial<Record<Field, Float32Array>>;

/** Columns of values; unknown ones are NaN. */
export class Past {
  t: number[] = [];
  /** By instant and class. */
  private drops = new Map<number, Map<string, Drop[]>>();
  private loans = new Map<number, Loan[]>();
  private classes: Columns[] = [];
  private limit = KEPT;

  /** Begins anew with the history of these classes; `live` bounds it to 15 minutes. */
  reset(names: readonly string[], history: History, live: boolean): void {
    this.limit = live ? KEPT : CAPACITY;
    this.t = [];
    this.drops.clear();
    this.loans.clear();
    this.classes = names.map(() => ({}));
    this.merge(names, history);
  }

  /** Puts older columns before those that are here. */
  prepend(names: readonly string[], history: History): void {
    const [first, room] = [this.t[0] ?? Infinity, this.limit - this.t.length];
    const older = history.t.filter((t) => t < first).length;
    const n = Math.min(older, room);
    if (n <= 0) return;
    for (const columns of this.classes) {
      for (const column of Object.values(columns)) column.copyWithin(n, 0, this.t.length);
    }
    this.t.unshift(...history.t.slice(older - n, older));
    names.forEach((name, index) =>
      this.write(index, history.classes[name], 0, n, history.t.length - older),
    );
    this.note(names, history, (t) => t < first);
  }

  /** Replaces the columns from the first of `history` on. */
  merge(names: readonly string[], history: History): void {
    const first = history.t[0];
    if (first === undefined) return;
    const kept = this.t.findIndex((t) => t >= first);
    if (kept >= 0) this.t.length = kept;
    const fresh = history.t.slice(-this.limit);
    this.forget((t) => t < first);
    this.makeRoom(fresh.length);
    const at = this.t.length;
    this.t.push(...fresh);
    names.forEach((name, index) => this.write(index, history.classes[name], at, fresh.length, 0));
    this.note(names, history, () => true);
  }

  /** Keeps the drops and loans of a history whose instants are wanted. */
  private note(names: readonly string[], history: History, wanted: (t: number) => boolean): void {
    for (const [name, reasons] of Object.entries(history.drops ?? {})) {
      for (const [reason, values] of Object.entries(reasons)) {
        values.forEach((pps, i) => {
          const t = history.t[i] ?? 0;
          if (pps !== null && pps > 0 && wanted(t)) this.noteDrop(t, name, { reason, pps });
        });
      }
    }
    const places = new Map(names.map((name, index) => [name, index]));
    for (const loan of history.loans ?? []) {
      const t = history.t[loan.t] ?? 0;
      const borrower = places.get(loan.borrower);
      if (borrower === undefined || !wanted(t)) continue;
      const lender = loan.lender === null ? -1 : (places.get(loan.lender) ?? -1);
      this.loans.set(t, [...(this.loans.get(t) ?? []), [borrower, lender, loan.bps]]);
    }
  }

  private noteDrop(t: number, name: string, drop: Drop): void {
    const classes = this.drops.get(t) ?? new Map<string, Drop[]>();
    classes.set(name, [...(classes.get(name) ?? []), drop]);
    this.drops.set(t, classes);
  }

  /** Forgets drops and loans of instants that are not kept. */
  private forget(kept: (t: number) => boolean): void {
    const oldest = this.t[0] ?? 0;
    const stays = (t: number) => kept(t) && t >= oldest;
    for (const t of this.drops.keys()) if (!stays(t)) this.drops.delete(t);
    for (const t of this.loans.keys()) if (!stays(t)) this.loans.delete(t);
  }

  /** Returns how many packets of a class were dropped between two instants, by reason. */
  dropped(name: string, from: number, to: number, step: number): Map<string, number> {
    const sums = new Map<string, number>();
    for (const [t, classes] of this.drops) {
      if (t < from || t > to) continue;
      for (const { reason, pps } of classes.get(name) ?? []) {
        sums.set(reason, (sums.get(reason) ?? 0) + (pps * step) / 1000);
      }
    }
    return sums;
  }

  /** Returns the packets that a class lost a second, by reason, in the column nearest to `t`. */
  dropsAt(name: string, t: number): Map<string, number> {
    const drops = this.drops.get(this.t[this.nearest(t)] ?? NaN)?.get(name) ?? [];
    return new Map(drops.map(({ reason, pps }) => [reason, pps]));
  }

  /** Returns who borrowed from whom in column `i`. */
  loansAt(i: number): Loan[] {
    return this.loans.get(this.t[i] ?? 0) ?? [];
  }

  private makeRoom(more: number): void {
    const over = this.t.length + more - this.limit;
    if (over <= 0) return;
    const n = this.t.length;
    this.t.splice(0, over);
    for (const columns of this.classes) {
      for (const column of Object.values(columns)) column.copyWithin(0, over, n);
    }
  }

  /** Writes `n` values at column `at`; `later` values behind them are not wanted. */
  private write(
    index: number,
    from: ClassHistory | undefined,
    at: number,
    n: number,
    later: number,
  ): void {
    const columns = this.classes[index];
    if (!columns) return;
    for (const field of FIELDS) {
      const values = from?.[NAMES[field]];
      if (!values && !columns[field]) continue;
      const column = (columns[field] ??= new Float32Array(this.limit).fill(NaN));
      const skipped = (values?.length ?? 0) - n - later;
      for (let i = 0; i < n; i++) column[at + i] = values?.[skipped + i] ?? NaN;
    }
  }

  /** Returns the value of a class in column `i`. */
  value(index: number, field: Field, i: number): number {
    return this.classes[index]?.[field]?.[i] ?? NaN;
  }

  /** Returns the value of a class over the columns `[first, last]`: the mean of a rate, the last
   *  backlog, the longest delay. */
  over(index: number, field: Field, first: number, last: number): number {
    if (field === "backlog" || first === last) return this.value(index, field, last);
    if (field !== "p50" && field !== "p99") return this.mean(index, field, first, last + 1);
    let most = NaN;
    for (let i = first; i <= last; i++) {
      const value = this.value(index, field, i);
      if (value === value) most = most === most ? Math.max(most, value) : value;
    }
    return most;
  }

  /** Returns the mean of the known values of a class in the columns `[from, to)`. */
  mean(index: number, field: Field, from: number, to: number): number {
    const column = this.classes[index]?.[field];
    if (!column) return NaN;
    let [sum, count] = [0, 0];
    for (let i = from; i < to; i++) {
      const value = column[i] ?? NaN;
      if (value === value) {
        sum += value;
        count += 1;
      }
    }
    return count > 0 ? sum / count : NaN;
  }

  /** Returns the columns `[from, to)` of the instants `[from, to]`. */
  range(from: number, to: number): [number, number] {
    return [search(this.t, from), search(this.t, to + 1)];
  }

  /** Returns the column nearest to an instant; -1 if there is none. */
  nearest(t: number): number {
    const at = search(this.t, t);
    const [before, after] = [this.t[at - 1], this.t[at]];
    if (before === undefined) return after === undefined ? -1 : at;
    return after !== undefined && after - t < t - before ? at : at - 1;
  }
}

/** Returns the first place in ascending `values` whose value is at least `least`. */
export function search(values: readonly number[], least: number): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] ?? Infinity) < least) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The least milliseconds that a figure covers. */
const COVERED = 500;

/** Returns how long a column is, in milliseconds. */
function columnLength(past: Past, i: number): number {
  const [before, at, after] = [past.t[i - 1], past.t[i] ?? 0, past.t[i + 1]];
  return before !== undefined ? at - before : after !== undefined ? after - at : COVERED;
}

/** Values of all classes at one instant, a row of seven each. */
export class Now {
  t = NaN;
  private values = new Float64Array(0);
  loans: Loan[] = [];
  /** How often a second the scheduler found packets of no class, of one, and of several. */
  found: readonly [number, number, number] | null = null;
  /** How the rate follows the capacity of a line, if it does. */
  varies: Varies | null = null;

  /** Takes a sample of the stream. */
  sample(sample: Sample, parents: readonly (number | null)[]): void {
    this.clear(sample.t, parents.length);
    sample.classes.forEach((row, index) =>
      row?.forEach((value, field) => {
        if (value !== null) this.values[index * 7 + field] = value;
      }),
    );
    this.loans = sample.loans ?? [];
    this.found = sample.found ?? null;
    this.varies = sample.varies ?? null;
    this.addUp(parents);
  }

  /** Takes a column of the past, with those before it that half a second takes. */
  column(past: Past, i: number, parents: readonly (number | null)[]): void {
    const end = past.t[i] ?? NaN;
    this.clear(end, parents.length);
    let first = i;
    while (first > 0 && end - (past.t[first] ?? end) + columnLength(past, first) < COVERED) first--;
    parents.forEach((_, index) =>
      FIELDS.forEach((field, at) => {
        this.values[index * 7 + at] = past.over(index, field, first, i);
      }),
    );
    this.loans = past.loansAt(i);
    this.addUp(parents);
  }

  /** Returns the value of a class. */
  value(index: number, field: Field): number {
    return this.values[index * 7 + FIELDS.indexOf(field)] ?? NaN;
  }

  private clear(t: number, classes: number): void {
    this.t = t;
    this.loans = [];
    this.found = null;
    this.varies = null;
    if (this.values.length !== classes * 7) this.values = new Float64Array(classes * 7);
    this.values.fill(NaN);
  }

  /** Gives classes with unknown values those of their children: sums, of delays the largest. */
  private addUp(parents: readonly (number | null)[]): void {
    const { values } = this;
    const given = parents.map((_, index) => values[index * 7] === values[index * 7]);
    for (let index = parents.length - 1; index >= 0; index--) {
      const parent = parents[index] ?? null;
      if (parent === null || given[parent]) continue;
      for (let field = 0; field < 7; field++) {
        const [of, to] = [values[index * 7 + field] ?? NaN, parent * 7 + field];
        const before = values[to] ?? NaN;
        if (of !== of) continue;
        if (before !== before) values[to] = of;
        else values[to] = field === 3 || field === 4 ? Math.max(before, of) : before + of;
      }
    }
  }
}
