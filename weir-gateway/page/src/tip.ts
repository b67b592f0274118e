// The one box that says what is below the pointer: class, instant, value.
import { byId, h, type Child } from "./dom";

/** Shows lines beside a place of the window; the box stays within it. */
export function showTip(x: number, y: number, ...children: Child[]): void {
  const tip = byId("tip");
  tip.replaceChildren(...children.filter((child): child is Node | string => !!child));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = x + 14 + width > innerWidth ? x - width - 14 : x + 14;
  const top = Math.min(y + 14, innerHeight - height - 4);
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}

export function hideTip(): void {
  byId("tip").hidden = true;
}

/** A line of the box: a colour, a name, a value. */
export function tipLine(colour: string | null, name: string, value: string, strong = false): Node {
  const swatch = h("span", { class: "swatch" });
  if (colour) swatch.style.background = colour;
  else swatch.style.visibility = "hidden";
  return h(
    "div",
    { class: strong ? "tip-line strong" : "tip-line" },
    swatch,
    h("span", {}, name),
    h("b", {}, value),
  );
}
