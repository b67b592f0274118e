// A tour of five cards over a link to play with (`weir demo --play`). Whoever leaves it is not asked
// again in this tab.
import { byId, h, text } from "../dom";
import type { Store } from "../store";

const KEY = "weir-tour";
const LEFT = "left";

/** What a card needs of the page. */
export interface Guide {
  store: Store;
  /** Shows a tab by its name. */
  tab: (name: string) => void;
  /** Asks for the slowest packets of the chosen class. */
  slowest: () => void;
  /** Turns the old card on. */
  oldCard: () => void;
}

interface Card {
  title: string;
  words: string;
  /** What its button says. */
  does: string;
  go: (guide: Guide) => void;
  /** What the card speaks of, as a selector. */
  of: string;
}

const CARDS: readonly Card[] = [
  {
    title: "Shares move",
    words:
      "Real packets fill this line. Pull the slider of backup to the left, press Apply, and see " +
      "the other classes take what it gives up. After 30 s it is undone, unless you keep it.",
    does: "Show me the slider",
    go: ({ store, tab }) => {
      choose(store, "backup");
      tab("Tune");
    },
    of: '.knob[data-key="class.backup.rate"]',
  },
  {
    title: "The call stays",
    words:
      "A flood offers more than the whole line, beside a call that needs little but needs it at " +
      "once. Change what you like: the call's packets still take less than the 10 ms that it is promised.",
    does: "Show me the call",
    go: ({ store, tab }) => {
      choose(store, "call");
      tab("Overview");
    },
    of: "canvas.heat",
  },
  {
    title: "Fork this moment",
    words:
      "What if it had been set otherwise some seconds ago? The simulator goes on from there with " +
      "the packets that really came. With nothing changed it repeats what happened, packet for packet.",
    does: "Take me to the fork",
    go: ({ tab }) => tab("Fork"),
    of: "#page-Fork .panel",
  },
  {
    title: "Ask why a packet was late",
    words:
      "Each packet can say what it waited for: its own queue, the turns of others, a limit. " +
      "Ask for the slowest ones, or click into the picture of delays.",
    does: "Ask the slowest of flood",
    go: ({ store, tab, slowest }) => {
      choose(store, "flood");
      tab("Overview");
      slowest();
    },
    of: ".packets",
  },
  {
    title: "Switch the old card",
    words:
      "A network card of the nineties took packets in chains, before the scheduler could choose " +
      "among later ones. Put one behind this line, in the simulator, and see which class waits for it.",
    does: "Simulate the old card",
    go: ({ tab, oldCard }) => {
      tab("Overview");
      oldCard();
    },
    of: ".choices",
  },
];

/** Notes that the address asks for a tour; call it before the token is taken out of it. */
export function takeTour(): void {
  const isAsked = /[#&]tour(&|$)/.test(location.hash);
  if (isAsked && sessionStorage.getItem(KEY) === null) sessionStorage.setItem(KEY, "0");
}

function choose(store: Store, name: string): void {
  const index = store.names.indexOf(name);
  if (index >= 0) store.select(index);
}

export class Tour {
  private at = 0;
  private readonly title = h("h2", { id: "tour-title" });
  private readonly words = h("p");
  private readonly does: HTMLButtonElement;
  private readonly before: HTMLButtonElement;
  private readonly next: HTMLButtonElement;
  private readonly count = h("span", { class: "muted" });
  private readonly box: HTMLElement;

  constructor(private readonly guide: Guide) {
    this.does = h("button", { class: "primary", onclick: () => this.show() });
    this.before = h("button", { onclick: () => this.turn(this.at - 1) }, "Back");
    this.next = h("button", { onclick: () => this.turn(this.at + 1) });
    this.box = h(
      "aside",
      { class: "tour", "aria-labelledby": "tour-title" },
      h(
        "header",
        {},
        this.title,
        this.count,
        h(
          "button",
          { class: "quiet", "aria-label": "Leave the tour", onclick: () => this.leave() },
          "Leave",
        ),
      ),
      this.words,
      h("div", { class: "tour-does" }, this.does, this.before, this.next),
    );
    const kept = sessionStorage.getItem(KEY);
    if (kept === null || kept === LEFT) return;
    document.body.append(this.box);
    document.body.classList.add("on-tour");
    this.turn(Number(kept) || 0);
  }

  private turn(to: number): void {
    const card = CARDS[to];
    if (!card) return this.leave();
    this.at = to;
    sessionStorage.setItem(KEY, String(to));
    text(this.title, card.title);
    text(this.words, card.words);
    text(this.does, card.does);
    text(this.count, `${to + 1} of ${CARDS.length}`);
    this.before.disabled = to === 0;
    text(this.next, to === CARDS.length - 1 ? "Done" : "Next");
  }

  /** Does what the card offers, and brings what it speaks of into view. */
  private show(): void {
    const card = CARDS[this.at];
    if (!card) return;
    card.go(this.guide);
    // After the views were drawn.
    setTimeout(() => {
      const found = document.querySelector(card.of);
      found?.scrollIntoView({ block: "center", behavior: "smooth" });
      found?.classList.add("spotlit");
      setTimeout(() => found?.classList.remove("spotlit"), SPOTLIT);
    }, DRAWN);
  }

  private leave(): void {
    sessionStorage.setItem(KEY, LEFT);
    this.box.remove();
    document.body.classList.remove("on-tour");
    byId("classes").querySelector<HTMLElement>("[tabindex]")?.focus();
  }
}

/** Milliseconds until views are drawn, and that something is lit. */
const DRAWN = 150;
const SPOTLIT = 2500;
