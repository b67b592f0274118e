// A change on trial: how long it still lasts, and what to do about it.
import { api } from "../api";
import { byId, h, say, text } from "../dom";
import type { Store } from "../store";

export class Trial {
  private number = 0;
  private ends = 0;
  private whole = 1;
  private timer = 0;
  private what = "";
  private readonly left = h("b", { class: "left" });
  private readonly bar = h("i");
  private readonly box: HTMLElement;

  constructor(
    private readonly store: Store,
    private readonly refused: (error: Error) => void,
  ) {
    this.box = h("div", { class: "trial", role: "alert" });
    store.on(["marks", "log"], () => void this.stands());
  }

  /** Begins the countdown of the change with this number. */
  begin(number: number, what: string, ms: number): void {
    this.number = number;
    this.what = what;
    this.ends = performance.now() + ms;
    this.whole = ms;
    this.box.replaceChildren(
      h("span", {}, `On trial: ${this.what}. It is undone in `, this.left),
      h("span", { class: "track" }, this.bar),
      h("button", { class: "primary", onclick: () => void this.keep() }, "Keep"),
      h("button", { onclick: () => void this.undo() }, "Undo now"),
    );
    byId("notice").replaceChildren(this.box);
    clearInterval(this.timer);
    this.timer = window.setInterval(() => this.tick(), 250);
    this.tick();
  }

  /** Ends the countdown: another client confirmed or undid the change, or its time is over. */
  end(): void {
    clearInterval(this.timer);
    this.box.remove();
  }

  private tick(): void {
    const left = this.ends - performance.now();
    text(this.left, `${Math.max(0, Math.ceil(left / 1000))} s`);
    this.bar.style.width = `${Math.max(0, (100 * left) / this.whole)}%`;
    if (left < -500) {
      this.end();
      say("The change was undone.");
      this.store.tell("log");
    }
  }

  private async keep(): Promise<void> {
    await this.ask(() => api.confirm(), "The change stays.");
  }

  /** Returns whether the change is still on trial; without it the countdown ends. */
  private async stands(): Promise<boolean> {
    if (!this.box.isConnected) return false;
    const number = this.number;
    const { log } = await api.log().catch(() => ({ log: null }));
    if (!log || number !== this.number) return true;
    const last = Math.max(...log.map((entry) => entry.number));
    const own = log.find((entry) => entry.number === number);
    if (own?.on_trial) return true;
    if (this.box.isConnected) {
      this.end();
      say(last === number ? "The change stays." : "The change was undone.");
    }
    return false;
  }

  private async undo(): Promise<void> {
    // What is no more on trial must not take another change with it.
    if (!(await this.stands())) return;
    await this.ask(
      () => api.rollback(undefined, { reason: "undone in the page" }),
      "The change is undone.",
    );
  }

  private async ask(request: () => Promise<unknown>, done: string): Promise<void> {
    try {
      await request();
      this.end();
      say(done);
      this.store.tell("log");
    } catch (error) {
      this.refused(error as Error);
    }
  }
}
