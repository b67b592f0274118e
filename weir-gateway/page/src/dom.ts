// Makes elements of a document: the few functions that all views share.

export type Child = Node | string | null | undefined | false;
type Listener = (event: never) => void;
export type Properties = Record<string, string | number | boolean | null | undefined | Listener>;

const SVG = "http://www.w3.org/2000/svg";

/** Makes an element; a property `onname` is a listener, the others are attributes. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Properties = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), properties, children);
}

/** Makes an element of a picture. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  properties: Properties = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function fill<E extends Element>(element: E, properties: Properties, children: Child[]): E {
  for (const [name, value] of Object.entries(properties)) set(element, name, value);
  element.append(...children.filter((child): child is Node | string => !!child));
  return element;
}

/** Sets an attribute or a listener. `null`, `undefined` and `false` remove the attribute. */
export function set(element: Element, name: string, value: Properties[string]): void {
  if (typeof value === "function") {
    element.addEventListener(name.slice(2), value as unknown as EventListener);
  } else if (value === null || value === undefined || value === false) {
    element.removeAttribute(name);
  } else {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** Replaces text only where it differs, so that an update touches little. */
export function text(element: Element, value: string): void {
  if (element.textContent !== value) element.textContent = value;
}

/** Returns the element of the document with this id, which index.html has. */
export function byId(id: string): HTMLElement {
  const element = document.getElementById(id);
  if (!element) throw new Error(`index.html has no element ${id}`);
  return element;
}

/** Lets a screen reader say a sentence. */
export function say(sentence: string): void {
  byId("spoken").textContent = sentence;
}

let ids = 0;

/** Returns an id that no other element has. */
export function freshId(of: string): string {
  return `${of}-${++ids}`;
}

/** Makes a drop-down list of pairs of value and label. */
export function choice(
  label: string,
  options: readonly (readonly [string, string])[],
  chosen: string,
  onchange: (value: string) => void,
): HTMLLabelElement {
  const select = h(
    "select",
    { onchange: () => onchange(select.value) },
    ...options.map(([value, name]) => h("option", { value, selected: value === chosen }, name)),
  );
  return h("label", { class: "choice" }, h("span", {}, label), select);
}

/** Writes a value and what it becomes; a narrow cell breaks behind the arrow only. */
export function beforeAfter(before: string, after: Child): HTMLSpanElement {
  const whole = (...children: Child[]) => h("span", { class: "whole" }, ...children);
  return h("span", {}, whole(`${before} →`), " ", whole(after));
}

/** Makes a table with a caption that only screen readers say, unless `shown`. */
export function table(caption: string, head: string[], rows: Child[][]): HTMLTableElement {
  const cells = (row: Child[]) =>
    row.map((cell, column) => (column === 0 ? h("th", { scope: "row" }, cell) : h("td", {}, cell)));
  return h(
    "table",
    { class: "data" },
    h("caption", { class: "spoken" }, caption),
    h("thead", {}, h("tr", {}, ...head.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...cells(row)))),
  );
}
