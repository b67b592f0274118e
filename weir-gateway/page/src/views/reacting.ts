// A fork whose senders react: the forecast of each class with its error bar, beside what happened and
// the simulation of that.
import type { Forecast, WhatIf } from "../api";
import { beforeAfter, h, table, type Child } from "../dom";
import { count, delay, digits, percent, rate, UNKNOWN } from "../format";

type Write = (value: number) => string;

const seconds: Write = (value) => delay(value * 1e6);
/** How each figure of the server is named and written, in its order. */
const FIGURES: Record<string, readonly [string, Write]> = {
  throughput: ["throughput", rate],
  "completion-p50": ["objects, p50", seconds],
  "completion-p95": ["objects, p95", seconds],
  "delay-p50": ["delay, p50", seconds],
  "delay-p99": ["delay, p99", seconds],
  loss: ["loss", percent],
  quality: ["quality of calls, R", digits],
  late: ["late packets of calls", percent],
};
const VERDICTS: Record<Forecast["verdict"], readonly [string, string]> = {
  better: ["better", "verdict-kept"],
  worse: ["worse", "verdict-broken"],
  "cannot-tell": ["cannot tell", "verdict-unknown"],
  same: ["the same", "verdict-unknown"],
};
/** The most classes in the table, and the most remarks below it. */
const CLASSES = 200;
const REMARKS = 12;

/** Returns a forecast with its error bar. */
function value(told: Forecast | undefined, write: (figure: number) => string): string {
  if (!told) return UNKNOWN;
  if (told.value === null) return "none";
  return `${write(told.value)} ± ${told.bar === null ? "?" : write(told.bar)}`;
}

/** Returns the words and the table of a forecast. */
export function forecast(whatif: WhatIf): HTMLElement[] {
  const classes = whatif.groups.filter((group) => group.by === "class");
  const rows = classes.slice(0, CLASSES).flatMap((group) =>
    group.rows.map((row) => {
      const [name, write] = FIGURES[row.measure] ?? [row.measure, digits];
      const told = row.forecasts[0];
      const was = row.captured === null ? UNKNOWN : write(row.captured);
      return [
        group.name,
        name,
        beforeAfter(was, write(row.simulated)),
        value(told, write),
        told ? verdict(told.verdict) : "",
      ];
    }),
  );
  const head = ["class", "figure", "recorded → simulated", "with the change, ± 90 %", "verdict"];
  const remarks = [
    ...whatif.unlike.map(({ flow, why }) => `not reproduced: ${flow} ${why}`),
    ...whatif.notes,
  ];
  const more = remarks.length - REMARKS;
  return [
    h(
      "p",
      { class: "verdict" },
      `${count(whatif.flows)} flows were simulated for ${digits(whatif.seconds)} s, ` +
        `${whatif.replications} times in each future.`,
    ),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "group", "aria-label": "The forecast in numbers" },
      table("The forecast in numbers", head, rows),
    ),
    remarks.length > 0
      ? h(
          "details",
          { class: "numbers" },
          h("summary", {}, "What to doubt"),
          ...remarks.slice(0, REMARKS).map((remark) => h("p", {}, `${remark}.`)),
          more > 0 ? h("p", {}, `And ${more} more.`) : "",
        )
      : h("p", { class: "muted" }, "Every flow was reproduced as it was."),
  ];
}

function verdict(of: Forecast["verdict"]): Child {
  const [words, name] = VERDICTS[of];
  return h("span", { class: name }, words);
}
