// A panel: a titled box with its controls, as all views are shown.
import { freshId, h, type Child } from "../dom";

/** Makes a panel with controls beside its title. */
export function panel(title: string, controls: Child[], ...content: Child[]): HTMLElement {
  const id = freshId("panel");
  return h(
    "section",
    { class: "panel", "aria-labelledby": id },
    h("header", {}, h("h2", { id }, title), h("div", { class: "controls" }, ...controls)),
    ...content,
  );
}
