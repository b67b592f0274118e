// What the page knows: the link, its past, its present, and what the user looks at. Views read it
// and are told what changed; only main.ts and the views' controls write it.
import type { About, Class, Direction, Mark, Setting } from "./api";
import { Now, Past } from "./columns";
import type { Field } from "./format";
import { colours } from "./palette";

/** What can change: `about` the classes, `sample` the present, `past` the history, `look` what the
 *  user looks at, `marks`, `pending` the changes not applied, `theme`, `log` the changes made, `health` the promises. */
export type Topic =
  "about" | "sample" | "past" | "look" | "marks" | "pending" | "theme" | "log" | "health";

/** Lengths of time that charts show, in milliseconds. */
export const WINDOWS: readonly number[] = [60_000, 300_000, 900_000];

/** The least milliseconds that charts show of a live link. */
const SHOWN_MIN = 20_000;

/** A line that carries less than this part of its mean is hardly used. */
const USED = 0.2;

/** The milliseconds at the end of a record that need not be used. */
const TAIL = 500;

/** The rate of a line, in bit/s, from which on it counts as none. */
const UNLIMITED = 100e9;

export class Store {
  about: About | null = null;
  at = 0;
  readonly past = new Past();
  readonly now = new Now();
  /** Since when single packets are known, and the link can be forked; `null` if they are not. */
  kept: number | null = null;
  marks: Mark[] = [];
  selected = 0;
  /** Milliseconds that charts show. */
  window = 300_000;
  /** The instant to which the user went back; `null` follows the present. */
  instant: number | null = null;
  /** Settings that were chosen and not applied, by key. */
  readonly pending = new Map<string, string>();
  colours: string[] = [];
  parents: (number | null)[] = [];
  names: string[] = [];
  /** Of each class how many are above it. */
  depths: number[] = [];
  private listeners = new Map<Topic, (() => void)[]>();
  private waiting = new Set<() => void>();

  on(topics: Topic | readonly Topic[], listener: () => void): void {
    for (const topic of typeof topics === "string" ? [topics] : topics) {
      this.listeners.set(topic, [...(this.listeners.get(topic) ?? []), listener]);
    }
  }

  /** Lets those who listen know, once before the next picture, whatever else is told till then. */
  tell(topic: Topic): void {
    if (this.waiting.size === 0) {
      requestAnimationFrame(() => {
        const listeners = [...this.waiting];
        this.waiting.clear();
        listeners.forEach((listener) => listener());
      });
    }
    this.listeners.get(topic)?.forEach((listener) => this.waiting.add(listener));
  }

  get direction(): Direction | null {
    return this.about?.directions[this.at] ?? null;
  }

  get classes(): readonly Class[] {
    return this.direction?.classes ?? [];
  }

  get live(): boolean {
    return this.about?.kind === "live";
  }

  /** Whether there is more than rates: a report of a simulation has no packets. */
  get tellsPackets(): boolean {
    return this.about?.kind !== "report";
  }

  /** Whether classes borrow: other schedulers share what is free without loans. */
  get lends(): boolean {
    return /^(htb|cbq)/.test(this.direction?.scheduler ?? "");
  }

  /** Takes the classes of a direction; the selection stays with the class of its name. */
  take(about: About, at: number): void {
    const name = this.names[this.selected];
    for (const one of about.directions) {
      // What is not shaped has a line that nothing fills; a part of it says nothing.
      if ((one.rate_bps ?? 0) >= UNLIMITED) one.rate_bps = null;
    }
    this.about = about;
    this.kept = about.kept;
    this.at = Math.min(at, about.directions.length - 1);
    this.names = this.classes.map((one) => one.name);
    this.parents = this.classes.map((one) => one.parent);
    this.depths = [];
    this.parents.forEach((parent) =>
      this.depths.push(parent === null ? 0 : (this.depths[parent] ?? 0) + 1),
    );
    const same = this.names.indexOf(name ?? "");
    this.selected =
      same >= 0
        ? same
        : Math.max(
            0,
            this.classes.findIndex((one) => one.leaf),
          );
    this.colours = colours(this.classes);
  }

  /** Chooses a class; all views show it. */
  select(index: number): void {
    if (index === this.selected) return;
    this.selected = index;
    this.tell("look");
  }

  /** Goes to an instant of the past, or with `null` back to the present. */
  goTo(instant: number | null): void {
    this.instant = instant;
    this.refresh();
    this.tell("look");
    this.tell("sample");
  }

  /** Goes to the last moment of a record at which the line was used, if its end is not one. */
  openRecord(): void {
    const { past, classes } = this;
    const leaves = classes.flatMap((one, index) => (one.leaf ? [index] : []));
    const used = past.t.map((_, i) =>
      leaves.reduce((sum, index) => sum + (past.value(index, "sent", i) || 0), 0),
    );
    const little = (USED * used.reduce((a, b) => a + b, 0)) / Math.max(1, used.length);
    const last = used.map((rate) => rate > little).lastIndexOf(true);
    const [at, end] = [past.t[last], past.t.at(-1)];
    if (at !== undefined && end !== undefined && end - at > TAIL) this.instant = at;
  }

  /** Shows the values of the chosen instant where no stream brings them. */
  refresh(): void {
    const last = this.past.t.at(-1);
    if (this.instant === null && this.live) return;
    const column = this.past.nearest(this.instant ?? last ?? 0);
    if (column >= 0) this.now.column(this.past, column, this.parents);
  }

  /** Returns the instants that charts show. */
  shown(): [number, number] {
    const last = Math.max(this.past.t.at(-1) ?? 0, this.live ? this.now.t || 0 : 0);
    const first = this.past.t[0] ?? last - this.window;
    const end =
      this.instant === null
        ? last
        : Math.min(last, Math.max(this.instant + this.window / 4, first + this.window));
    // What was not yet is not shown as empty time.
    return this.live
      ? [Math.max(end - this.window, Math.min(first - 1000, end - SHOWN_MIN)), end]
      : [Math.max(first, end - this.window), Math.max(end, first + 1)];
  }

  /** Returns the leaves, or the classes of a level and the leaves above it; those with the largest
   *  mean first. */
  largest(
    field: Field,
    most: number,
    level: number | null = null,
  ): { top: number[]; rest: number[] } {
    const [from, to] = this.past.range(...this.shown());
    const leaves = this.classes.flatMap((one, index) => {
      const depth = this.depths[index] ?? 0;
      const is = level === null ? one.leaf : depth === level || (one.leaf && depth < level);
      return is ? [index] : [];
    });
    const means = new Map(
      leaves.map((index) => [index, this.past.mean(index, field, from, to) || 0]),
    );
    const order = [...leaves].sort((a, b) => (means.get(b) ?? 0) - (means.get(a) ?? 0));
    const byPlace = (a: number, b: number) => a - b;
    return { top: order.slice(0, most).sort(byPlace), rest: order.slice(most) };
  }

  /** Returns the choices not applied, as the server takes them. */
  settings(): Setting[] {
    const direction = this.direction?.name ?? "";
    return [...this.pending].map(([key, value]) => ({ direction, key, value }));
  }

  /** Changes a value that is not applied yet; `null` forgets it. */
  choose(key: string, value: string | null): void {
    if (value === null) this.pending.delete(key);
    else this.pending.set(key, value);
    this.tell("pending");
  }
}
