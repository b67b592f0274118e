// A live run and its simulation drawn over each other: what `weir demo --view` shows first.
import { api, type Beside, type ClassHistory } from "../api";
import { choice, h } from "../dom";
import { measure, type Field } from "../format";
import type { Store } from "../store";
import { panel } from "./panel";
import { TwoCourses } from "./two";

const NAMES: Partial<Record<Field, keyof ClassHistory>> = {
  sent: "sent_bps",
  p99: "p99_us",
  p50: "p50_us",
  offered: "offered_bps",
  dropped: "dropped_pps",
};

export class BesideView {
  readonly element: HTMLElement;
  private readonly words = h("p", { class: "plan" });
  private readonly courses: TwoCourses;
  private field: Field = "sent";
  private beside: Beside | null = null;
  private of = "";

  constructor(private readonly store: Store) {
    this.courses = new TwoCourses(store, "Live and simulated", "live", "simulated");
    const measures = (Object.keys(NAMES) as Field[]).map(
      (key) => [key, measure(key).name] as const,
    );
    this.element = panel(
      "Live and simulated",
      [
        choice("Measure", measures, this.field, (value) => {
          this.field = value as Field;
          this.draw();
        }),
      ],
      this.words,
      ...this.courses.elements,
    );
    this.element.hidden = true;
    store.on("about", () => void this.ask());
    store.on(["theme", "look", "marks"], () => this.draw());
  }

  private async ask(): Promise<void> {
    const { about, direction } = this.store;
    const able = about?.abilities.beside === true && direction !== null;
    if (!able) {
      this.element.hidden = true;
      this.of = "";
      return;
    }
    if (this.of === direction.name) return;
    this.of = direction.name;
    try {
      this.beside = await api.beside(direction.name);
    } catch {
      // Only the shaped direction was simulated.
      this.beside = null;
    }
    this.element.hidden = this.beside === null;
    this.words.textContent = this.beside?.about ?? "";
    this.draw();
  }

  private draw(): void {
    const { beside } = this;
    const name = NAMES[this.field];
    if (!beside || !name) return;
    this.courses.draw({
      t: beside.t,
      solid: beside.live,
      dashed: beside.simulated,
      field: this.field,
      name,
      marks: this.store.marks,
      words: `${measure(this.field).name}, live and simulated`,
    });
  }
}
