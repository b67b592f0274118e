// Values as people read them: three digits, one unit. NaN and null are a dash.

/** What stands where a value is not known. */
export const UNKNOWN = "–";

const known = (value: number | null | undefined): value is number =>
  value !== null && value !== undefined && Number.isFinite(value);

/** Writes a number with three significant digits. */
export function digits(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 99.95) return value.toFixed(0);
  if (size >= 9.995) return value.toFixed(1);
  return size >= 0.9995 ? value.toFixed(2) : value.toPrecision(3).replace(/(\.\d*?)0+$/, "$1");
}

function scaled(value: number, base: number, units: readonly string[]): string {
  let step = 0;
  let size = value;
  while (Math.abs(size) >= base * 0.9995 && step < units.length - 1) {
    size /= base;
    step += 1;
  }
  return `${digits(size)} ${units[step]}`;
}

/** A rate in bit/s. */
export const rate = (bps: number | null | undefined): string =>
  known(bps)
    ? scaled(Math.abs(bps) < 0.5 ? 0 : bps, 1000, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"])
    : UNKNOWN;

/** A number of bytes. */
export const bytes = (count: number | null | undefined): string =>
  known(count) ? scaled(count, 1024, ["B", "KiB", "MiB", "GiB"]) : UNKNOWN;

/** A delay in microseconds. */
export const delay = (us: number | null | undefined): string =>
  known(us) ? scaled(us, 1000, ["µs", "ms", "s"]) : UNKNOWN;

/** Packets in a second. */
export const pps = (value: number | null | undefined): string =>
  known(value) ? scaled(value, 1000, ["/s", "k/s", "M/s"]).replace(" /s", "/s") : UNKNOWN;

/** A part of a whole. */
export const percent = (part: number): string =>
  Number.isFinite(part) ? `${digits(part * 100)} %` : UNKNOWN;

/** A whole number. */
export const count = (value: number): string => Math.round(value).toLocaleString("en");

const two = (value: number) => String(value).padStart(2, "0");

/** Milliseconds from the browser's zone to the one in which times are written. */
let shift = 0;

/** Writes times from now on as they are since 1970 in UTC: those of a simulation begin at 0. */
export function writeSimulated(simulated: boolean): void {
  shift = simulated ? new Date(0).getTimezoneOffset() * 60_000 : 0;
}

/** The time of day of an instant in milliseconds since 1970, in the browser's zone. */
export function clock(t: number, fraction = false): string {
  const date = new Date(t + shift);
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return fraction ? `${time}.${String(date.getMilliseconds()).padStart(3, "0")}` : time;
}

/** The day and time of an instant. */
export function dayAndClock(t: number): string {
  const date = new Date(t + shift);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(t)}`;
}

/** A length of time in milliseconds, roughly. */
export function span(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

/** How a measure is drawn and named: one row a measure that charts and the tree show. */
export interface Measure {
  readonly key: Field;
  readonly name: string;
  readonly write: (value: number | null | undefined) => string;
  /** Whether the values of classes may be added. */
  readonly adds: boolean;
}

export type Field = "sent" | "offered" | "backlog" | "p50" | "p99" | "dropped" | "borrowed";

export const MEASURES: readonly Measure[] = [
  { key: "sent", name: "Throughput", write: rate, adds: true },
  { key: "offered", name: "Offered", write: rate, adds: true },
  { key: "backlog", name: "Backlog", write: bytes, adds: true },
  { key: "p50", name: "Delay p50", write: delay, adds: false },
  { key: "p99", name: "Delay p99", write: delay, adds: false },
  { key: "dropped", name: "Drops", write: pps, adds: true },
  { key: "borrowed", name: "Borrowed", write: rate, adds: true },
];

/** Returns the row of a measure. */
export function measure(key: Field): Measure {
  const found = MEASURES.find((row) => row.key === key);
  if (!found) throw new Error(`no measure ${key}`);
  return found;
}
