// The sessions of RSVP: who reserved what, in which class, and for how long it lives unrefreshed.
import { api, type Reservations, type Session } from "../api";
import { h, table, text, type Child } from "../dom";
import { count, rate, UNKNOWN } from "../format";
import type { Store } from "../store";
import { panel } from "./panel";

/** The most sessions asked for and listed. */
const LIMIT = 50;
/** Milliseconds between two looks. */
const PACE = 2000;
const HEAD = ["flow", "reserved", "class", "lives"];

export class ReservationList {
  readonly element: HTMLElement;
  private readonly sums = h("span", { class: "muted", role: "status" });
  private readonly list = h("div", {
    class: "scroll",
    tabindex: 0,
    role: "group",
    "aria-label": "Sessions of RSVP",
  });
  private readonly more = h("p", { class: "empty" });

  constructor(private readonly store: Store) {
    this.element = panel("Reservations", [this.sums], this.list, this.more);
    this.element.classList.add("reservations");
    this.element.hidden = true;
    store.on("about", () => void this.look());
    setInterval(() => void this.look(), PACE);
  }

  /** Asks for the sessions, where the link takes reservations and somebody sees them. */
  private async look(): Promise<void> {
    const has = this.store.live && (this.store.about?.abilities.reservations ?? false);
    this.element.hidden = !has;
    if (!has || document.hidden || this.element.closest("[hidden]")) return;
    try {
      this.draw((await api.reservations(LIMIT)).reservations);
    } catch (error) {
      text(this.sums, (error as Error).message);
    }
  }

  private draw(all: Reservations): void {
    const sums = `${count(all.sessions)} sessions, ${count(all.admitted)} admitted`;
    text(this.sums, `${sums}, ${rate(all.reserved)} of ${rate(all.room)}`);
    const rows = all.shown.flatMap(rowsOf);
    // A reader who has scrolled stays where they are.
    const { scrollTop, scrollLeft } = this.list;
    this.list.replaceChildren(...(rows.length > 0 ? [table("Sessions of RSVP", HEAD, rows)] : []));
    this.list.scrollTo(scrollLeft, scrollTop);
    const hidden = all.sessions - all.shown.length;
    const none = rows.length === 0 ? "Nobody announces a flow." : "";
    text(this.more, hidden > 0 ? `and ${count(hidden)} more sessions` : none);
  }
}

/** Returns a row for each reservation of a session, or one that says that there is none. */
function rowsOf(session: Session): Child[][] {
  const protocol = { 6: "tcp", 17: "udp" }[session.protocol] ?? `protocol ${session.protocol}`;
  const to = `${session.destination}:${session.port}`;
  const senders = session.senders.map((one) => one.sender);
  if (session.reservations.length === 0) {
    const lives = Math.max(...session.senders.map((one) => one.expires_ms ?? 0));
    return [[flow(senders, to, protocol), "not reserved", UNKNOWN, seconds(lives)]];
  }
  return session.reservations.map((one) => [
    flow(one.senders.length > 0 ? one.senders : senders, to, `${protocol}, ${one.style}`),
    two(rate(one.rate * 8), `${one.service}, by ${one.by ?? "this host"}`),
    one.class === null
      ? one.admitted
        ? UNKNOWN
        : "not admitted"
      : h("span", { class: "cut", title: one.class }, one.class),
    seconds(one.expires_ms),
  ]);
}

/** Names a flow as its packets do. */
function flow(senders: string[], to: string, what: string): HTMLElement {
  const [first = "any sender", ...more] = senders.map((one) => one.replace(/ port (\d+)$/, ":$1"));
  const others = more.length > 0 ? ` and ${more.length} more` : "";
  return two(`${first}${others} → ${to}`, what);
}

/** Two lines of a cell, the second one muted. */
const two = (first: string, second: string): HTMLElement =>
  h("span", { class: "two-lines" }, h("span", {}, first), h("small", { class: "muted" }, second));

/** For how long state lives without a refresh. */
const seconds = (ms: number | null): string =>
  ms === null ? UNKNOWN : `${(ms / 1000).toFixed(1)} s`;
