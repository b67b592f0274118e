// Why was this packet late: packets with their delays divided into causes, and the sentence of
// `weir explain`.
import { api, type Packet } from "../api";
import { h } from "../dom";
import { clock, count, delay } from "../format";
import { PARTS } from "../palette";
import type { Store } from "../store";
import { hideTip, showTip, tipLine } from "../tip";
import type { Cell } from "./heat";
import { panel } from "./panel";

/** The most packets asked for at once. */
const LIMIT = 50;

export class PacketList {
  readonly element: HTMLElement;
  private readonly status = h("p", { class: "empty", role: "status" });
  private readonly list = h("ol");
  private readonly form: HTMLFormElement;
  private readonly fields: Record<"min" | "max", HTMLInputElement>;
  private cell: Cell | null = null;

  constructor(private readonly store: Store) {
    const field = (label: string) =>
      h("input", { type: "number", min: 0, step: "any", "aria-label": label, placeholder: label });
    this.fields = { min: field("at least, ms"), max: field("at most, ms") };
    this.form = h(
      "form",
      {
        class: "controls",
        onsubmit: (event: Event) => {
          event.preventDefault();
          this.slowest();
        },
      },
      this.fields.min,
      this.fields.max,
      h("button", {}, "Packets of this time"),
    );
    this.element = panel(
      "Why was this packet late?",
      [this.form],
      legend(),
      meanings(),
      this.status,
      h(
        "div",
        { class: "packets", tabindex: 0, role: "group", "aria-label": "Packets" },
        this.list,
      ),
    );
    this.status.textContent =
      "Choose a cell of the heat map, or ask for the packets of the chosen " +
      "class in the time that is shown.";
    store.on("about", () => {
      if (store.about && !store.about.abilities.packets) {
        this.status.textContent =
          "There are no packets here: a live link with `ring` in its " +
          "deployment, or a record, has them.";
      }
    });
  }

  /** Shows the packets behind a cell of the heat map. */
  show(cell: Cell): void {
    this.cell = cell;
    void this.ask({
      class: cell.name,
      from: cell.from,
      to: cell.to,
      delay_min_us: cell.min,
      delay_max_us: Number.isFinite(cell.max) ? cell.max : undefined,
    });
    this.element.scrollIntoView({ block: "nearest", behavior: "smooth" });
  }

  /** Asks for the slowest packets of the chosen class in the time that is shown. */
  slowest(): void {
    const [shown, to] = this.store.shown();
    const from = Math.max(shown, this.store.kept ?? 0);
    const us = (field: HTMLInputElement) =>
      field.value === "" ? undefined : Number(field.value) * 1000;
    this.cell = null;
    void this.ask({
      class: this.store.names[this.store.selected],
      from,
      to,
      delay_min_us: us(this.fields.min),
      delay_max_us: us(this.fields.max),
    });
  }

  /** Goes to an instant, and asks for the slowest packets there. */
  private goTo(instant: number): void {
    this.store.goTo(instant);
    this.slowest();
  }

  private async ask(query: Record<string, string | number | undefined>): Promise<void> {
    this.status.textContent = "Replaying the record …";
    this.list.replaceChildren();
    try {
      const direction = this.store.direction?.name;
      const found = await api.packets({ ...query, direction, limit: LIMIT });
      this.draw(found.packets, found.left_out, found.covers);
    } catch (error) {
      this.status.textContent = (error as Error).message;
    }
  }

  private draw(packets: Packet[], leftOut: number, covers: [number, number] | null): void {
    const where = this.cell
      ? ` between ${clock(this.cell.from)} and ${clock(this.cell.to)}, ` +
        `${delay(this.cell.min)} to ${delay(this.cell.max)}`
      : "";
    const kept = covers ? ` The record covers ${clock(covers[0])} to ${clock(covers[1])}.` : "";
    const before = this.cell && covers && this.cell.to < covers[0];
    const more = leftOut > 0 ? ` and ${count(leftOut)} more` : "";
    this.status.textContent =
      packets.length > 0
        ? `${packets.length} packets${more}${where}.${kept}`
        : `No packet${where}.${kept}`;
    if (before && covers) {
      const go = h("button", { onclick: () => this.goTo(covers[0] + NEXT) }, "Go to its beginning");
      this.status.append(" ", go);
    }
    // The port comes after the delay, so a bar may be longer than it.
    const sum = ({ parts_us }: Packet) => Object.values(parts_us).reduce((a, b) => a + b, 0);
    const most = Math.max(1, ...packets.map(sum));
    this.list.replaceChildren(...packets.map((packet) => row(packet, most)));
  }
}

/** Milliseconds behind the first instant of the record. */
const NEXT = 2000;

function row(packet: Packet, most: number): HTMLElement {
  const total = packet.total_us;
  const words = PARTS.filter(([key]) => (packet.parts_us[key] ?? 0) > 0)
    .map(([key, name]) => `${name} ${delay(packet.parts_us[key])}`)
    .join(", ");
  const bar = h("div", {
    class: "parts",
    role: "img",
    "aria-label": words || "no delay",
    onmouseleave: hideTip,
    onmousemove: (event: MouseEvent) =>
      showTip(
        event.clientX,
        event.clientY,
        ...PARTS.filter(([key]) => (packet.parts_us[key] ?? 0) > 0).map(([key, name, colour]) =>
          tipLine(colour, name, delay(packet.parts_us[key])),
        ),
      ),
  });
  for (const [key, , colour] of PARTS) {
    const part = packet.parts_us[key] ?? 0;
    if (part <= 0) continue;
    const piece = h("i", { "data-part": key });
    piece.style.width = `${(100 * part) / most}%`;
    piece.style.background = colour;
    bar.append(piece);
  }
  return h(
    "li",
    {},
    h(
      "div",
      { class: "packet-head" },
      h("b", {}, packet.class),
      h("span", {}, `packet ${packet.n}`),
      h("span", { class: "muted" }, `${clock(packet.offered, true)} · ${packet.bytes} B`),
      h("b", { class: "total" }, packet.dropped ? `dropped: ${packet.dropped}` : delay(total)),
    ),
    bar,
    h("p", { class: "sentence" }, packet.sentence),
  );
}

function legend(): HTMLElement {
  return h(
    "ul",
    { class: "legend", "aria-label": "Causes of delay" },
    ...PARTS.map(([, name, colour, meaning]) => {
      const swatch = h("span", { class: "swatch" });
      swatch.style.background = colour;
      return h("li", { title: meaning }, h("span", { class: "key" }, swatch, name));
    }),
  );
}

/** What each cause means, folded. */
function meanings(): HTMLElement {
  return h(
    "details",
    { class: "numbers" },
    h("summary", {}, "What the causes mean"),
    h("dl", {}, ...PARTS.flatMap(([, name, , text]) => [h("dt", {}, name), h("dd", {}, text)])),
  );
}
