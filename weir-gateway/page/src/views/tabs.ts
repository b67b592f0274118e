// Tabs that arrow keys change, as the ARIA practices have them.
import { h, set } from "../dom";

export class Tabs {
  readonly elements: HTMLElement[];
  private readonly pages: HTMLElement[];
  private readonly buttons: HTMLElement[];

  /** `onshow` is called when another tab is shown. */
  constructor(
    private readonly tabs: [string, HTMLElement[]][],
    private readonly onshow: () => void,
  ) {
    this.pages = tabs.map(([name, content]) =>
      h(
        "div",
        {
          role: "tabpanel",
          id: `page-${name}`,
          class: `page page-${name.toLowerCase()}`,
          "aria-labelledby": `tab-${name}`,
        },
        ...content,
      ),
    );
    this.buttons = tabs.map(([name]) =>
      h(
        "button",
        {
          role: "tab",
          id: `tab-${name}`,
          "aria-controls": `page-${name}`,
          onclick: () => this.show(name),
        },
        name,
      ),
    );
    const list = h(
      "div",
      {
        role: "tablist",
        "aria-label": "Views",
        class: "tabs",
        onkeydown: (event: KeyboardEvent) => this.key(event),
      },
      ...this.buttons,
    );
    this.show(tabs[0]?.[0] ?? "");
    this.elements = [list, ...this.pages];
  }

  /** Shows the tab of this name. */
  show(name: string): void {
    const at = this.tabs.findIndex(([other]) => other === name);
    this.pages.forEach((page, other) => {
      page.hidden = other !== at;
    });
    this.buttons.forEach((button, other) => {
      set(button, "aria-selected", String(other === at));
      button.tabIndex = other === at ? 0 : -1;
    });
    this.onshow();
  }

  private key(event: KeyboardEvent): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    const at = this.buttons.findIndex((button) => button === document.activeElement);
    const next = (at + step + this.buttons.length) % this.buttons.length;
    this.buttons[next]?.focus();
    this.show(this.tabs[next]?.[0] ?? "");
  }
}
