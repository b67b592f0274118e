// One parameter: a field that takes what the policy would say, and a slider where it is a number.
import type { Knob } from "../api";
import { freshId, h } from "../dom";
import { digits } from "../format";

/** Steps of a slider. */
const STEPS = 1000;
/** Numbers up to here have an even slider, such as priorities. */
const EVEN_MAX = 300;

export class KnobField {
  readonly element: HTMLElement;
  private readonly input: HTMLInputElement | HTMLSelectElement;
  private readonly slider: HTMLInputElement | null;
  private readonly range: Range | null;

  /** `rate` is that of the link, up to which rates go. */
  constructor(
    readonly knob: Knob,
    rate: number | null,
    disabled: boolean,
    private readonly onchange: (key: string, value: string | null) => void,
  ) {
    const [id, about] = [freshId("knob"), freshId("about")];
    this.range = rangeOf(knob, rate);
    this.input = this.makeInput(id, about, disabled);
    this.slider = this.range && !knob.choices ? this.makeSlider(disabled) : null;
    const reset = h(
      "button",
      {
        class: "quiet reset",
        title: "Take the value of the policy again",
        "aria-label": `Reset ${knob.key}`,
        onclick: () => this.take(null),
      },
      "↺",
    );
    this.slider?.classList.toggle("unset", knob.number === null);
    this.element = h(
      "div",
      { class: "knob", "data-key": knob.key },
      h(
        "label",
        { for: id },
        h("span", {}, knob.parameter),
        h("code", {}, knob.class === null ? "link" : knob.class),
      ),
      h("div", { class: "knob-controls" }, this.slider, this.input, reset),
      h("p", { class: "muted", id: about }, this.words()),
    );
  }

  private words(): string {
    const { summary, value, default: otherwise } = this.knob;
    return value === null && otherwise ? `${summary} Default: ${otherwise}.` : summary;
  }

  private makeInput(
    id: string,
    about: string,
    disabled: boolean,
  ): HTMLInputElement | HTMLSelectElement {
    const { knob } = this;
    if (knob.choices) {
      const first =
        knob.value === null ? [h("option", { value: "" }, `${knob.default ?? ""} (default)`)] : [];
      const select = h(
        "select",
        { id, disabled, "aria-describedby": about, onchange: () => this.changed(select.value) },
        ...first,
        ...knob.choices.map((word) =>
          h("option", { value: word, selected: word === knob.value }, word),
        ),
      );
      return select;
    }
    const input = h("input", {
      id,
      disabled,
      "aria-describedby": about,
      value: knob.value ?? "",
      placeholder: knob.number === null ? "default" : written(knob.number, knob),
      spellcheck: "false",
      autocomplete: "off",
      oninput: () => {
        this.place(input.value);
        this.changed(input.value);
      },
    });
    return input;
  }

  private makeSlider(disabled: boolean): HTMLInputElement {
    const { range, knob } = this;
    const start =
      range && knob.number !== null ? Math.round(range.toPlace(knob.number) * STEPS) : 0;
    const slider = h("input", {
      type: "range",
      min: 0,
      max: STEPS,
      value: start,
      disabled,
      "aria-label": `${knob.key}, slider`,
      "aria-valuetext": knob.value ?? knob.default ?? "",
      oninput: () => {
        const value = range ? written(range.fromPlace(slider.valueAsNumber / STEPS), knob) : "";
        this.input.value = value;
        slider.setAttribute("aria-valuetext", value);
        this.changed(value);
      },
    });
    return slider;
  }

  private place(value: string): void {
    const number = readNumber(value, this.knob.unit);
    if (!this.slider || !this.range || number === null) return;
    this.slider.value = String(Math.round(this.range.toPlace(number) * STEPS));
  }

  private changed(value: string): void {
    const same = value.trim() === (this.knob.value ?? "");
    this.element.classList.toggle("changed", !same);
    this.onchange(this.knob.key, same ? null : value.trim());
  }

  /** Shows a value that was chosen before, or with `null` that of the policy. */
  take(value: string | null): void {
    const shown = value ?? this.knob.value ?? "";
    this.input.value = shown;
    if (value === null && this.slider && this.range && this.knob.number !== null) {
      this.slider.value = String(Math.round(this.range.toPlace(this.knob.number) * STEPS));
    } else {
      this.place(shown);
    }
    this.changed(shown);
  }
}

interface Range {
  toPlace: (value: number) => number;
  fromPlace: (place: number) => number;
}

/** Returns the range of a slider: by ratios where it spans more than a hundredfold. */
export function rangeOf(knob: Knob, rate: number | null): Range | null {
  const now = knob.number;
  if (now === null && (knob.min === null || knob.max === null)) return null;
  const least = knob.min ?? 0;
  const high =
    knob.unit === "bit/s"
      ? Math.min(knob.max ?? Infinity, rate ?? Infinity)
      : (knob.max ?? Infinity);
  const most = Math.max(Number.isFinite(high) ? high : 10 * (now || 1), now ?? 0);
  const sensible = now !== null && most > now * 1e4 ? now * 100 : most;
  if (!(sensible > least)) return null;
  const low = least > 0 ? least : Math.min(smallest(knob.unit, sensible), (now || sensible) / 10);
  const few = knob.unit !== "bit/s" && knob.unit !== "s" && sensible - least <= EVEN_MAX;
  if (few || sensible / low <= 100) {
    return {
      toPlace: (value) => clamp((value - least) / (sensible - least)),
      fromPlace: (place) => least + place * (sensible - least),
    };
  }
  const span = Math.log(sensible / low);
  return {
    toPlace: (value) => clamp(Math.log(Math.max(value, low) / low) / span),
    fromPlace: (place) => low * Math.exp(place * span),
  };
}

function smallest(unit: string, most: number): number {
  return unit === "bit/s" ? Math.max(1000, most / 1e4) : most / 1000;
}

const clamp = (part: number) => Math.min(1, Math.max(0, part));

const SCALES: Record<string, readonly (readonly [string, number])[]> = {
  "bit/s": [
    ["bit/s", 1],
    ["kbit/s", 1e3],
    ["Mbit/s", 1e6],
    ["Gbit/s", 1e9],
  ],
  bytes: [
    ["B", 1],
    ["KiB", 1024],
    ["MiB", 1048576],
  ],
  s: [
    ["ns", 1e-9],
    ["us", 1e-6],
    ["ms", 1e-3],
    ["s", 1],
  ],
  packets: [["packets", 1]],
};

/** Writes a number of a slider as a policy would, with three digits. */
export function written(value: number, knob: Knob): string {
  const scale = SCALES[knob.unit];
  const whole =
    knob.unit === "packets" ||
    knob.unit === "bytes" ||
    (knob.unit === "" && [knob.number, knob.min].every((n) => n === null || n % 1 === 0));
  const rounded = whole ? Math.max(knob.min ?? 0, Math.round(value)) : value;
  if (!scale) {
    if (knob.value?.includes("%")) return `${digits(rounded * 100)} %`;
    return whole
      ? String(Math.round(Number(rounded.toPrecision(3))))
      : String(Number(rounded.toPrecision(3)));
  }
  const fitting = [...scale].reverse().find(([, size]) => rounded >= size * 0.9995) ?? scale[0];
  if (!fitting) return String(rounded);
  const [unit, size] = fitting;
  const number = Number((rounded / size).toPrecision(3));
  return `${unit === "B" ? Math.round(number) : number} ${unit}`;
}

/** Reads a value as a policy writes it; `null` if it is none. */
export function readNumber(text: string, unit: string): number | null {
  const [, number, suffix] = /^\s*([\d.]+(?:e[+-]?\d+)?)\s*(\S*)\s*$/i.exec(text) ?? [];
  if (number === undefined) return null;
  if (suffix === "%") return Number(number) / 100;
  if (!suffix) return Number(number);
  const more: Record<string, number> = { µs: 1e-6, kB: 1000, MB: 1e6, byte: 1, bytes: 1 };
  const size =
    SCALES[unit]?.find(([name]) => name === suffix || name === `${suffix}s`)?.[1] ?? more[suffix];
  return size === undefined ? null : Number(number) * size;
}
