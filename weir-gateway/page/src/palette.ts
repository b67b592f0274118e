// One palette: the eight hues of Okabe and Ito ("Color Universal Design", 2008), which people with
// any colour vision tell apart. Classes below one parent share its hue and differ in lightness.
import type { Class } from "./api";

/** The hues, in the order of use, which is that of all pictures of Weir; lighter on dark ground. */
const LIGHT = [
  "#0072b2",
  "#d55e00",
  "#009e73",
  "#cc79a7",
  "#e69f00",
  "#56b4e9",
  "#b8a800",
  "#6b7280",
];
const DARK = [
  "#3d9fe0",
  "#e5752a",
  "#1db88a",
  "#d58db6",
  "#e69f00",
  "#7cc7f2",
  "#e3d84c",
  "#9aa4b2",
];

/** Lightness of the shades below one parent, as a part of white (above 0) or black (below). */
const SHADES = [0, 0.32, -0.28, 0.52, -0.44, 0.18, -0.14, 0.42];

/** The colour of classes above those that have a hue. */
const ABOVE = "#8a94a0";

/** The colours of a heat map from few packets to many: cividis, even for the colour-blind. */
const CIVIDIS = ["#0b2a5b", "#2f4470", "#575d6d", "#7c7b78", "#a59c74", "#d0be67", "#fde737"];

/** What delay consists of, in the order of its bar: name, colour, and what it means. */
export const PARTS: readonly [string, string, string, string][] = [
  ["own_leaf", "behind its own queue", "#0072b2", "earlier packets of its own class went first"],
  ["line_busy", "the line was busy", "#9aa4b2", "a packet that had begun was still being sent"],
  ["tokens", "tokens", "#e69f00", "its class had used what its rate and burst allow"],
  ["undertime", "share", "#d55e00", "its class was ahead of its share and could not borrow"],
  ["ceiling", "ceiling", "#b8a800", "its class, or one above it, sent at its ceiling"],
  ["upper_limit", "upper limit", "#8a5a00", "its class, or one above it, was at its upper limit"],
  ["others", "others had their turns", "#009e73", "the scheduler chose packets of other classes"],
  ["port", "the port", "#cc79a7", "after Weir's decision: the port's queue and its card"],
  ["host", "the run loop", "#56b4e9", "Weir's program was late: this machine did something else"],
];

type Rgb = [number, number, number];

const read = (hex: string): Rgb =>
  [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)) as Rgb;
const write = (rgb: readonly number[]): string =>
  `#${rgb.map((part) => Math.round(part).toString(16).padStart(2, "0")).join("")}`;

function blend(from: Rgb, to: Rgb, part: number): Rgb {
  return from.map((value, index) => value + ((to[index] ?? 0) - value) * part) as Rgb;
}

function shade(hex: string, part: number): string {
  const to: Rgb = part > 0 ? [255, 255, 255] : [0, 0, 0];
  return write(blend(read(hex), to, Math.abs(part)));
}

/** Returns black or white, whichever can be read on a colour. */
export function onColour(hex: string): string {
  const [red, green, blue] = read(hex).map((part) => {
    const value = part / 255;
    return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  }) as Rgb;
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.2 ? "#101418" : "#ffffff";
}

/** Returns whether the page is dark now. */
export function isDark(): boolean {
  const chosen = document.documentElement.dataset["theme"];
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Returns the depth whose classes have a hue each: the first with more than one class. */
function hueDepth(depths: number[]): number {
  const deepest = Math.max(0, ...depths);
  for (let depth = 0; depth < deepest; depth++) {
    if (depths.filter((other) => other === depth).length > 1) return depth;
  }
  return deepest;
}

/** Returns a colour for each class. Classes that share a hue get different shades of it. */
export function colours(classes: readonly Class[]): string[] {
  const hues = isDark() ? DARK : LIGHT;
  const depths: number[] = [];
  const heads: number[] = [];
  classes.forEach((one, index) => {
    depths.push(one.parent === null ? 0 : (depths[one.parent] ?? 0) + 1);
    heads.push(index);
  });
  const depth = hueDepth(depths);
  classes.forEach((one, index) => {
    if ((depths[index] ?? 0) > depth && one.parent !== null) heads[index] = heads[one.parent] ?? 0;
  });
  // A few leaves have a hue each, whoever is above them.
  const leaves = classes.flatMap((one, index) => (one.leaf ? [index] : []));
  if (leaves.length <= hues.length) {
    return classes.map((_, index) => hues[leaves.indexOf(index)] ?? ABOVE);
  }
  const order = [...new Set(heads.filter((_, index) => (depths[index] ?? 0) >= depth))];
  const used = new Map<number, number>();
  return classes.map((one, index) => {
    const place = order.indexOf(heads[index] ?? 0);
    if (place < 0) return ABOVE;
    const hue = place % hues.length;
    const before = one.leaf ? (used.get(hue) ?? 0) : 0;
    if (one.leaf) used.set(hue, before + 1);
    return shade(hues[hue] ?? "#888888", SHADES[before % SHADES.length] ?? 0);
  });
}

/** Returns red, green and blue of a place between the fewest and the most. */
export function heat(part: number): Rgb {
  const place = Math.min(1, Math.max(0, part)) * (CIVIDIS.length - 1);
  const below = Math.min(CIVIDIS.length - 2, Math.floor(place));
  return blend(read(CIVIDIS[below] ?? ""), read(CIVIDIS[below + 1] ?? ""), place - below);
}

/** Returns a value of the style sheet's palette, for a canvas. */
export const ink = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
