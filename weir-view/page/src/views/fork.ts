// Fork a moment: the state of the link then, and what came after it, with other parameters; the two
// futures drawn over each other.
import { api, type ClassHistory, type Fork, type Setting } from "../api";
import { Chart, type Series } from "../chart";
import { choice, h, table } from "../dom";
import { clock, count, delay, measure, rate, type Field } from "../format";
import type { Store } from "../store";
import { panel } from "./panel";

const NAMES: Partial<Record<Field, keyof ClassHistory>> = {
  sent: "sent_bps",
  backlog: "backlog_bytes",
  p99: "p99_us",
  dropped: "dropped_pps",
};
/** The most points of a line: more of two futures over each other cannot be told apart. */
const POINTS = 60;
/** The most classes drawn, each with two lines. */
const DRAWN = 6;

export class ForkView {
  readonly element: HTMLElement;
  private readonly plan = h("p", { class: "plan" });
  private readonly verdict = h("div", { role: "status" });
  private readonly chart = new Chart({ label: "Two futures", height: 260 });
  private readonly legend = h("ul", { class: "legend" });
  private readonly numbers = h("div", {
    class: "scroll",
    tabindex: 0,
    role: "group",
    "aria-label": "Two futures in numbers",
  });
  private readonly run: HTMLButtonElement;
  private readonly result: HTMLElement;
  private seconds = 30;
  private field: Field = "sent";
  private fork: Fork | null = null;
  private at = 0;

  constructor(private readonly store: Store) {
    this.run = h(
      "button",
      { class: "primary", onclick: () => void this.ask() },
      "Fork this moment",
    );
    this.result = h(
      "div",
      { hidden: true },
      this.verdict,
      this.chart.element,
      this.legend,
      this.numbers,
    );
    const measures = (Object.keys(NAMES) as Field[]).map(
      (key) => [key, measure(key).name] as const,
    );
    this.element = panel(
      "Fork a moment into the simulator",
      [
        choice(
          "for",
          [
            ["10", "10 s"],
            ["30", "30 s"],
            ["60", "1 min"],
            ["300", "5 min"],
          ],
          "30",
          (value) => {
            this.seconds = Number(value);
            this.describe();
          },
        ),
        choice("Measure", measures, this.field, (value) => {
          this.field = value as Field;
          this.draw();
        }),
        this.run,
      ],
      this.plan,
      this.result,
    );
    store.on(["look", "pending", "about"], () => this.describe());
    store.on(["theme", "look"], () => this.draw());
  }

  private moment(): number {
    const { instant, past } = this.store;
    const last = past.t.at(-1) ?? 0;
    const first = past.t[0] ?? last;
    return instant ?? Math.max(first, last - this.seconds * 1000);
  }

  private describe(): void {
    const able = this.store.about?.abilities.fork ?? false;
    this.run.disabled = !able;
    if (!able) {
      this.plan.textContent =
        "There is no state to go on from: a live link with `ring` in its " +
        "deployment, or a record, has it.";
      return;
    }
    const settings = this.store.settings();
    const moment =
      this.store.instant === null ? `${this.seconds} s ago` : `at ${clock(this.store.instant)}`;
    const changes =
      settings.length > 0
        ? `with ${list(settings)}`
        : "with nothing changed, which must make the record again (choose changes under Tune)";
    this.plan.textContent =
      `From the state ${moment} the simulator goes on for ${this.seconds} s ` +
      `with the packets that really came, ${changes}.`;
  }

  private async ask(): Promise<void> {
    this.run.disabled = true;
    this.result.hidden = false;
    this.verdict.replaceChildren(h("p", { class: "empty" }, "Simulating …"));
    this.at = this.moment();
    const settings = this.store.settings();
    try {
      const direction = this.store.direction?.name ?? "";
      this.fork = await api.fork(direction, this.at, settings, this.seconds);
      this.judge(this.fork, settings);
      this.draw();
    } catch (error) {
      this.fork = null;
      this.verdict.replaceChildren(h("p", { class: "finding error" }, (error as Error).message));
    }
    this.run.disabled = false;
  }

  private judge(fork: Fork, settings: Setting[]): void {
    const packets = `${count(fork.packets)} packets`;
    const badge = fork.identical
      ? h("span", { class: "badge good" }, "identical")
      : h("span", { class: "badge" }, "different");
    const words = fork.identical
      ? ` The simulator made the same decision for each of ${packets}.`
      : ` ${packets}. First difference: ${fork.first_difference ?? "not told"}.`;
    this.verdict.replaceChildren(
      h("p", { class: "verdict", "data-identical": String(fork.identical) }, badge, words),
      settings.length > 0 && fork.open_loop
        ? h(
            "p",
            { class: "muted" },
            "Packets arrive as they did: " +
              "a sender that reacts to loss or delay, as TCP does, would have sent otherwise.",
          )
        : "",
    );
  }

  private draw(): void {
    const { fork, store } = this;
    const name = NAMES[this.field];
    if (!fork || !name) return;
    const { write } = measure(this.field);
    const classes = this.classes(fork, name);
    const group = Math.ceil(fork.t.length / POINTS);
    const t = fork.t.filter((_, i) => (i + 1) % group === 0 || i === fork.t.length - 1);
    const series: Series[] = classes.flatMap((one) => {
      const colour = store.colours[store.names.indexOf(one)] ?? "";
      return [
        { name: `${one}, recorded`, colour, values: means(fork.recorded[one]?.[name], group) },
        {
          name: `${one}, forked`,
          colour,
          values: means(fork.forked[one]?.[name], group),
          dashed: true,
        },
      ];
    });
    const [from, to] = [t[0] ?? 0, t.at(-1) ?? 1];
    this.chart.draw({
      t,
      series,
      stacked: false,
      limit: null,
      from,
      to,
      instant: null,
      marks: [],
      write,
    });
    this.chart.element.setAttribute(
      "aria-label",
      `${measure(this.field).name} in two futures from ` +
        `${clock(this.at)}; the table below has the means`,
    );
    this.legend.replaceChildren(
      ...classes.map((one) => {
        const swatch = h("span", { class: "swatch" });
        swatch.style.background = store.colours[store.names.indexOf(one)] ?? "";
        return h("li", {}, h("span", { class: "key" }, swatch, one));
      }),
      h("li", {}, h("span", { class: "key" }, h("span", { class: "solid" }), "recorded")),
      h("li", {}, h("span", { class: "key" }, h("span", { class: "dash" }), "forked")),
    );
    this.drawNumbers(fork);
  }

  /** Returns the chosen class and those that differ most. */
  private classes(fork: Fork, name: keyof ClassHistory): string[] {
    const leaves = this.store.classes.filter((one) => one.leaf).map((one) => one.name);
    const weight = (one: string) => {
      const [was, is] = [mean(fork.recorded[one]?.[name]), mean(fork.forked[one]?.[name])];
      return 1e3 * Math.abs((was || 0) - (is || 0)) + Math.max(was || 0, is || 0);
    };
    const order = leaves
      .filter((one) => one in fork.recorded || one in fork.forked)
      .sort((a, b) => weight(b) - weight(a));
    const chosen = this.store.names[this.store.selected] ?? "";
    const first = order.includes(chosen) ? [chosen] : [];
    return [...new Set([...first, ...order])].slice(0, DRAWN);
  }

  private drawNumbers(fork: Fork): void {
    const rows = this.store.classes
      .filter((one) => one.leaf && one.name in fork.forked)
      .slice(0, 200)
      .map(({ name }) => {
        const [was, is] = [fork.recorded[name], fork.forked[name]];
        return [
          name,
          rate(mean(was?.sent_bps)),
          rate(mean(is?.sent_bps)),
          delay(mean(was?.p99_us)),
          delay(mean(is?.p99_us)),
        ];
      });
    this.numbers.replaceChildren(
      table(
        "Two futures in numbers",
        ["class", "rate, recorded", "rate, forked", "mean p99, recorded", "mean p99, forked"],
        rows,
      ),
    );
  }
}

/** Returns the means of groups of values. */
export function means(values: (number | null)[] | undefined, group: number): (number | null)[] {
  const found: (number | null)[] = [];
  for (let at = 0; at < (values?.length ?? 0); at += group) {
    const value = mean(values?.slice(at, at + group));
    found.push(Number.isFinite(value) ? value : null);
  }
  return found;
}

function mean(values: (number | null)[] | undefined): number {
  const known = (values ?? []).filter((value): value is number => value !== null);
  return known.length > 0 ? known.reduce((a, b) => a + b, 0) / known.length : NaN;
}

const list = (settings: Setting[]): string =>
  settings.map(({ key, value }) => `${key} = ${value || "nothing"}`).join(", ");
