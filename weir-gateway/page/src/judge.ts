// Whether all is well: promises held against what classes do now, and a mark for each class.
import type { Class, Condition } from "./api";
import { delay, percent, rate, bytes, type Field } from "./format";

export type State = "kept" | "broken" | "unknown";

/** A promise held against what is. */
export interface Judgement {
  promise: Condition;
  state: State;
  /** What is measured, as written. */
  now: string;
  /** By how much it is missed, as a part of the goal. */
  excess: number;
  /** What is wrong, in words. */
  words: string;
}

/** What a class does at the instant that is shown. */
export type Present = (index: number, field: Field) => number;

/** A class that gets so much of what it asks for lacks nothing. */
const ENOUGH = 0.98;

/** Holds a promise against what is; `at` finds classes by their names. */
export function judge(
  promise: Condition,
  at: (name: string) => number,
  present: Present,
): Judgement {
  const goal = promise.part_of
    ? promise.part_of.part * measured(promise.part_of, at, present)
    : (promise.goal ?? NaN);
  const value = measured(promise, at, present);
  const write = writer(promise.metric);
  const unknown: Judgement = {
    promise,
    state: "unknown",
    now: write(value),
    excess: 0,
    words: "",
  };
  if (value !== value || goal !== goal) return unknown;
  if (promise.metric === "rate" && promise.comparison.startsWith(">")) {
    const index = at(promise.class ?? "");
    const offered = present(index, "offered");
    // Who asks for less than the promise gets what it asks for.
    if (value < goal && value >= ENOUGH * (offered || 0)) return { ...unknown, state: "kept" };
  }
  const holds = {
    "<": value < goal,
    "<=": value <= goal,
    ">": value > goal,
    ">=": value >= goal,
  }[promise.comparison];
  if (holds) return { ...unknown, state: "kept" };
  const excess = Math.abs(value - goal) / Math.max(Math.abs(goal), 1e-9);
  const [does, too] = SENTENCES[promise.metric] ?? [promise.metric, "off"];
  const words = `${promise.class ?? ""} ${does} ${write(value)}, ${write(Math.abs(value - goal))} ${too}`;
  return { ...unknown, state: "broken", excess, words: words.trim() };
}

/** What a class does by a metric, and how what it misses is called. */
const SENTENCES: Record<string, readonly [string, string]> = {
  rate: ["gets", "too little"],
  "delay.p50": ["takes (p50)", "too long"],
  "delay.p90": ["takes (p99)", "too long"],
  "delay.p99": ["takes (p99)", "too long"],
  "delay.max": ["takes (p99)", "too long"],
  loss: ["loses", "too much"],
  drops: ["loses a second", "too many"],
  "backlog.max": ["has waiting", "too much"],
};

/** Returns the measure of a promise as the page knows it; NaN where it does not. */
function measured(
  of: { class: string | null; metric: string },
  at: (name: string) => number,
  present: Present,
): number {
  const index = of.class === null ? -1 : at(of.class);
  if (index < 0) return NaN;
  switch (of.metric) {
    case "rate":
      return present(index, "sent");
    case "delay.p50":
      return present(index, "p50");
    // The page knows two quantiles: what 99 in 100 keep to, 90 do, and the longest is no shorter.
    case "delay.p90":
    case "delay.p99":
    case "delay.max":
      return present(index, "p99");
    case "backlog.max":
      return present(index, "backlog");
    case "loss": {
      const [sent, offered] = [present(index, "sent"), present(index, "offered")];
      if (!(present(index, "dropped") > 0)) return 0;
      return offered > 0 ? Math.max(0, 1 - sent / offered) : NaN;
    }
    case "drops":
      return present(index, "dropped") > 0 ? present(index, "dropped") : 0;
    default:
      return NaN;
  }
}

function writer(metric: string): (value: number) => string {
  if (metric === "rate") return rate;
  if (metric.startsWith("delay")) return delay;
  if (metric === "backlog.max") return bytes;
  if (metric === "loss") return percent;
  return (value) => (value === value ? String(Math.round(value)) : "–");
}

/** How a class is: the worse, the greater. */
export enum Level {
  Idle,
  Well,
  Short,
  Trouble,
}

/** The mark of a class. */
export interface Mark {
  level: Level;
  /** The figure beside the mark. */
  figure: string;
  /** What it means, in a sentence. */
  words: string;
}

/** Reasons for which packets may be dropped though all is well: senders are told by it, or it is
 *  what a policer is for. */
export const MAY_DROP = new Set(["early", "late", "policed", "reconfigured"]);

/** Returns the packets a second that a class lost though it was not over its share. */
export function lostInTrouble(
  one: Class,
  offered: number,
  drops: ReadonlyMap<string, number>,
): number {
  // Whose share is not known may be over it.
  if (one.share_bps === null || offered > one.share_bps) return 0;
  let sum = 0;
  for (const [reason, pps] of drops) if (!MAY_DROP.has(reason)) sum += pps;
  return sum;
}

/** A class that gets less than this part of what it asks for, and of its share, is short of it. */
const LITTLE = 0.8;

/** Returns how a class is; `own` are the judgements of its promises. */
export function markOf(
  one: Class,
  own: readonly Judgement[],
  of: (field: Field) => number,
  lost: number,
): Mark {
  const [sent, offered] = [of("sent") || 0, of("offered") || 0];
  const broken = [...own]
    .sort((a, b) => b.excess - a.excess)
    .find(({ state }) => state === "broken");
  const shown = broken ?? own[0];
  const part = offered > 0 ? Math.min(1, sent / offered) : NaN;
  const figure = shown ? together(shown.now, goalOf(shown.promise)) : percent(part);
  // A report tells what classes sent, and not what they asked for.
  if (!shown && Number.isNaN(of("offered"))) return { level: Level.Idle, figure: "", words: "" };
  if (broken) return { level: Level.Trouble, figure, words: `${broken.words}.` };
  if (lost > 0) {
    const words = `${one.name} loses ${Math.ceil(lost)} packets a second though it is within its share.`;
    return { level: Level.Trouble, figure, words };
  }
  if (!(offered > 0) && !(sent > 0)) {
    return { level: Level.Idle, figure: shown ? figure : "", words: `${one.name} is idle.` };
  }
  const share = one.share_bps ?? null;
  const words = `${one.name} gets ${percent(part)} of the ${rate(offered)} that it is offered.`;
  if (one.leaf && part < LITTLE && sent < LITTLE * (share ?? Infinity)) {
    const of = share === null ? "Its share is not known." : `Its share is ${rate(share)}.`;
    return { level: Level.Short, figure, words: `${words} ${of}` };
  }
  return { level: Level.Well, figure, words };
}

/** Writes a value and its goal in little room: the unit once if both have it. */
function together(now: string, goal: string): string {
  const [value, unit] = brief(now).split(" ");
  const [most, other] = brief(goal).split(" ");
  return unit === other ? `${value} of ${most} ${unit}` : `${value} ${unit} of ${most} ${other}`;
}

/** Writes a value without zeros behind the point. */
const brief = (value: string): string =>
  value.replace(/(\.\d*?)0+(?= )/, "$1").replace(/\.(?= )/, "");

/** Writes the goal of a promise. */
export function goalOf(promise: Condition): string {
  if (promise.goal !== null) return writer(promise.metric)(promise.goal);
  const part = promise.part_of;
  return part ? `${percent(part.part)} of ${part.class ?? ""}` : "–";
}
