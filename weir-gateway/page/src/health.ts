// Whether all is well, kept up to date: the promises of the policy, judged, and a mark a class.
import { api, type Condition } from "./api";
import { Level, judge, lostInTrouble, markOf, type Judgement, type Mark } from "./judge";
import type { Store } from "./store";

export class Health {
  promises: Condition[] = [];
  offers: Condition[] = [];
  /** Why there are no promises, if they could not be asked for. */
  refusal = "";
  judgements: Judgement[] = [];
  marks: Mark[] = [];
  private of = "";
  private places = new Map<string, number>();

  constructor(private readonly store: Store) {
    store.on("about", () => void this.ask());
    store.on("sample", () => this.renew());
  }

  /** Asks for the promises of another policy. */
  private async ask(): Promise<void> {
    const { store } = this;
    const { direction } = store;
    this.places = new Map(store.names.map((name, index) => [name, index]));
    const key = JSON.stringify([direction?.name, direction?.policy, store.names.length]);
    if (!direction || key === this.of) return this.renew();
    this.of = key;
    this.refusal = "";
    [this.promises, this.offers] = [[], []];
    if (!store.tellsPackets) {
      this.refusal = "A report has no policy, so it promises nothing.";
    } else {
      try {
        const found = await api.promises(direction.name);
        if (key !== this.of) return;
        [this.promises, this.offers] = [found.promises, found.offers];
      } catch (error) {
        this.refusal = (error as Error).message;
        this.of = "";
      }
    }
    this.renew();
    store.tell("health");
  }

  /** Judges anew; told as `health` by the sample itself. */
  private renew(): void {
    const { store } = this;
    const { now, classes, past } = store;
    const present = (index: number, field: Parameters<typeof now.value>[1]) =>
      now.value(index, field);
    this.judgements = this.promises.map((promise) =>
      judge(promise, (name) => this.places.get(name) ?? -1, present),
    );
    const own = new Map<string, Judgement[]>();
    for (const judgement of this.judgements) {
      const name = judgement.promise.class ?? "";
      own.set(name, [...(own.get(name) ?? []), judgement]);
    }
    this.marks = classes.map((one, index) => {
      const of = (field: Parameters<typeof now.value>[1]) => now.value(index, field);
      const drops = one.leaf && of("dropped") > 0 ? past.dropsAt(one.name, now.t) : NONE;
      return markOf(one, own.get(one.name) ?? [], of, lostInTrouble(one, of("offered"), drops));
    });
    // A class above others is as bad as the worst of them.
    for (let index = classes.length - 1; index >= 0; index--) {
      const parent = classes[index]?.parent ?? null;
      const [below, above] = [this.marks[index], parent === null ? null : this.marks[parent]];
      if (below && above && below.level > above.level) {
        if (below.level > Level.Well) above.words = `Below it: ${below.words}`;
        above.level = below.level;
      }
    }
  }

  /** Returns how bad a class is, for the order of the list: worst first. */
  trouble(index: number): number {
    return this.marks[index]?.level ?? 0;
  }

  /** Returns the broken promises, the worst first. */
  broken(): Judgement[] {
    return this.judgements
      .filter(({ state }) => state === "broken")
      .sort((a, b) => b.excess - a.excess);
  }
}

const NONE: ReadonlyMap<string, number> = new Map();
