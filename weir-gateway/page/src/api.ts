// The requests of the page, and what comes back. docs/view.md describes both.

export type Setting = { direction?: string; key: string; value: string };

export interface Class {
  name: string;
  parent: number | null;
  leaf: boolean;
  share_bps: number | null;
  ceiling_bps: number | null;
  parameters: [string, string][];
}

export interface Direction {
  name: string;
  from: string;
  to: string;
  rate_bps: number | null;
  scheduler: string;
  policy: string;
  classes: Class[];
}

export interface About {
  kind: "live" | "record" | "report" | "runs";
  name: string;
  weir: string;
  now: number;
  from: number;
  to: number;
  /** Since when single packets are known, and the link can be forked. */
  kept: number | null;
  step_ms: number;
  panics: number;
  abilities: {
    change: boolean;
    packets: boolean;
    fork: boolean;
    confirm: boolean;
    beside: boolean;
    reservations: boolean;
  };
  directions: Direction[];
}

type Values = (number | null)[];

export interface ClassHistory {
  sent_bps?: Values;
  offered_bps?: Values;
  backlog_bytes?: Values;
  p50_us?: Values;
  p99_us?: Values;
  dropped_pps?: Values;
  borrowed_bps?: Values;
}

export interface History {
  t: number[];
  classes: Record<string, ClassHistory>;
  drops?: Record<string, Record<string, Values>>;
  loans?: { t: number; borrower: string; lender: string | null; bps: number }[];
}

export interface Sample {
  t: number;
  classes: (Values | null)[];
  loans?: [number, number, number][];
  kept?: number | null;
  /** How often a second the scheduler found packets of no class, of one, and of several. */
  found?: [number, number, number];
  /** How the rate follows the capacity of a line, if it does. */
  varies?: Varies | null;
}

/** A rate that follows the capacity of a line, with delay and reason as people read them. */
export interface Varies {
  rate_bps: number;
  delay_us: number | null;
  target_us: number;
  text: string;
}

export interface Heat {
  t: number[];
  edges_us: number[];
  counts: number[][];
}

export interface Mark {
  t: number;
  kind: string;
  text: string;
  level: string;
}

/** A condition on what a class does. */
export interface Condition {
  that: string;
  under: string | null;
  class: string | null;
  metric: string;
  comparison: "<" | "<=" | ">" | ">=";
  goal: number | null;
  part_of: { part: number; class: string | null; metric: string } | null;
}

export interface Promises {
  promises: Condition[];
  offers: Condition[];
}

export interface Knob {
  key: string;
  class: string | null;
  parameter: string;
  summary: string;
  unit: string;
  value: string | null;
  number: number | null;
  min: number | null;
  max: number | null;
  choices: string[] | null;
  default: string | null;
}

export interface Finding {
  code: string;
  severity: string;
  message: string;
  cure: string;
}

type Pair = [number | null, number | null];

export interface PredictedClass {
  name: string;
  share_bps: Pair | null;
  delay_bound_us: Pair | null;
  at_least_bps: Pair | null;
}

export interface Prediction {
  errors: number;
  /** The findings of the change, and those that the policy has without it. */
  findings: Finding[];
  standing: Finding[];
  difference: string;
  classes: PredictedClass[];
}

export interface Changed {
  number: number | null;
  errors: number;
  text: string;
  findings: Finding[];
  what: string;
  trial_ms?: number;
}

export interface Entry {
  number: number;
  at_ns: number;
  user: number | null;
  origin: string;
  reason: string;
  what: string;
  on_trial: boolean;
}

export interface Packet {
  n: number;
  class: string;
  offered: number;
  bytes: number;
  total_us: number | null;
  parts_us: Record<string, number>;
  regulated_by: [string, string] | null;
  lender: string | null;
  dropped: string | null;
  sentence: string;
}

export interface Packets {
  packets: Packet[];
  covers: [number, number] | null;
  left_out: number;
}

/** A card behind the scheduler: when it reports what it has sent. */
export type Card = "chain" | "packet";

/** What a class did in a whole future. */
export interface Totals {
  sent_packets: number;
  dropped_packets: number;
  delay_mean_us: number | null;
}

export interface Fork {
  t: number[];
  step_ms: number;
  recorded: Record<string, ClassHistory>;
  forked: Record<string, ClassHistory>;
  recorded_totals: Record<string, Totals>;
  forked_totals: Record<string, Totals>;
  runs: { all: number; contended: number } | null;
  identical: boolean;
  packets: number;
  first_difference: string | null;
  open_loop: boolean;
}

/** A figure of a class under the change. */
export interface Forecast {
  /** `null` if no object completes, or no packet is sent. */
  value: number | null;
  /** The true value is within this of it with 90 %; `null` if that is not known. */
  bar: number | null;
  verdict: "better" | "worse" | "cannot-tell" | "same";
}

/** Two futures whose senders react. */
export interface WhatIf {
  replications: number;
  seconds: number;
  flows: number;
  groups: {
    by: string;
    name: string;
    rows: {
      measure: string;
      captured: number | null;
      simulated: number;
      forecasts: Forecast[];
    }[];
  }[];
  unlike: { flow: string; why: string }[];
  notes: string[];
}

export interface Beside {
  t: number[];
  step_ms: number;
  live: Record<string, ClassHistory>;
  simulated: Record<string, ClassHistory>;
  about: string;
}

/** The points of a sweep or a comparison. */
export interface Runs {
  name: string;
  keys: string[];
  metrics: { name: string; unit: string; more: boolean }[];
  points: Point[];
  left_out: number;
}

export interface Point {
  values: string[];
  /** Of each metric the mean, and half of its 95 % interval. */
  results: ([number, number | null] | null)[];
  error: string | null;
  runs: number[];
}

export interface Sender {
  sender: string;
  from: string | null;
  expires_ms: number | null;
}

export interface Reservation {
  by: string | null;
  style: string;
  service: string;
  /** Bytes of IP packets a second. */
  rate: number;
  senders: string[];
  admitted: boolean;
  class: string | null;
  expires_ms: number | null;
}

/** A session of RSVP. */
export interface Session {
  destination: string;
  protocol: number;
  port: number;
  senders: Sender[];
  reservations: Reservation[];
}

export interface Reservations {
  sessions: number;
  admitted: number;
  reserved: number;
  room: number;
  shown: Session[];
}

/** A refusal of the server, with its status of HTTP. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

const TOKEN = "weir-token";
/** What stands before the routes: the page of one of many runs is at `/run/NUMBER/`. */
const base = (): string => location.pathname.replace(/\/$/, "");

/** Returns whether this is the page of one of many runs, whose table is at `/`. */
export const isOfRuns = (): boolean => base().startsWith("/run/");

/** Takes the token out of the address, where it is in no log and no history, and keeps it. */
export function takeToken(): void {
  const found = /(?:^#|&)token=([^&]+)/.exec(location.hash);
  if (!found?.[1]) return;
  sessionStorage.setItem(TOKEN, decodeURIComponent(found[1]));
  history.replaceState(null, "", location.pathname);
}

/** Keeps a token that the user typed. */
export const keepToken = (token: string): void => sessionStorage.setItem(TOKEN, token.trim());

function headers(more: Record<string, string>): Record<string, string> {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

async function checked(response: Response): Promise<Response> {
  if (response.ok) return response;
  const body = await response.text();
  let reason = body;
  try {
    reason = (JSON.parse(body) as { error?: string }).error ?? body;
  } catch {
    /* The server's words are no JSON; they are shown as they are. */
  }
  throw new Refusal(response.status, reason || `the server answered ${response.status}`);
}

async function get<T>(
  path: string,
  query: Record<string, string | number | undefined> = {},
): Promise<T> {
  const entries = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const written = new URLSearchParams(entries.map(([name, value]) => [name, String(value)]));
  const suffix = written.size > 0 ? `?${written.toString()}` : "";
  const response = await fetch(base() + path + suffix, { headers: headers({}) });
  return (await checked(response)).json() as Promise<T>;
}

async function post<T>(path: string, body: object): Promise<T> {
  const response = await fetch(base() + path, {
    method: "POST",
    headers: headers({ "Content-Type": "application/json" }),
    body: JSON.stringify(body),
  });
  return (await checked(response)).json() as Promise<T>;
}

type Times = { from?: number | undefined; to?: number | undefined };

export interface Terms {
  confirm_ms?: number;
  reason?: string;
}

/** Requests at once that the link answers or that compute for long: the server has four places for
 *  all of its clients. */
const LONG_MAX = 2;
let underWay = 0;
const waiting: (() => void)[] = [];

/** Makes a request when there is room for it. */
async function gently<T>(request: () => Promise<T>): Promise<T> {
  if (underWay >= LONG_MAX) await new Promise<void>((go) => waiting.push(go));
  underWay += 1;
  try {
    return await request();
  } finally {
    underWay -= 1;
    waiting.shift()?.();
  }
}

/** Every request that the page makes. */
export const api = {
  about: () => get<About>("/view/about"),
  history: (direction: string, times: Times = {}) =>
    get<History>("/view/history", { direction, ...times }),
  heat: (direction: string, name: string, times: Times) =>
    get<Heat>("/view/heat", { direction, class: name, ...times }),
  events: (times: Times = {}) => get<Mark[]>("/view/events", times),
  knobs: (direction: string) => gently(() => get<Knob[]>("/view/knobs", { direction })),
  promises: (direction: string) => gently(() => get<Promises>("/view/promises", { direction })),
  predict: (direction: string, settings: Setting[]) =>
    gently(() => post<Prediction>("/view/predict", { direction, settings })),
  packets: (query: Record<string, string | number | undefined>) =>
    gently(() => get<Packets>("/view/packets", query)),
  fork: (
    direction: string,
    at: number,
    settings: Setting[],
    seconds: number,
    card: Card | undefined,
  ) => gently(() => post<Fork>("/view/fork", { direction, at, settings, seconds, card })),
  reacting: (direction: string, at: number, settings: Setting[], seconds: number) =>
    gently(() => post<WhatIf>("/view/reacting", { direction, at, settings, seconds })),
  runs: () => get<Runs>("/view/runs"),
  beside: (direction: string) => gently(() => get<Beside>("/view/beside", { direction })),
  set: (settings: Setting[], terms: Terms) =>
    post<{ changed: Changed }>("/set", { settings, terms }),
  rollback: (number: number | undefined, terms: Terms) =>
    post<{ changed: Changed }>("/rollback", number === undefined ? { terms } : { number, terms }),
  confirm: () => post<unknown>("/confirm", {}),
  reservations: (limit: number) =>
    gently(() => get<{ reservations: Reservations }>("/reservations", { limit })),
  log: () => gently(() => get<{ log: Entry[] }>("/log")),
  stream: (direction: string, signal: AbortSignal) =>
    fetch(`${base()}/view/stream?${new URLSearchParams({ direction }).toString()}`, {
      headers: headers({ Accept: "text/event-stream" }),
      signal,
    }).then(checked),
};
