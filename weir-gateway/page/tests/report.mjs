// The figures that were measured, each with its goal.
const rows = [];

/** Notes a figure whose value must be at most `most`. */
export function atMost(what, value, most, unit = "") {
  rows.push({
    what,
    value: `${short(value)} ${unit}`.trim(),
    goal: `at most ${most} ${unit}`.trim(),
    holds: value <= most,
  });
}

/** Notes a figure that must be within a part of what is expected. */
export function near(what, value, expected, part) {
  const away = Math.abs(value - expected) / Math.abs(expected);
  rows.push({
    what,
    value: `${short(value)}, ${short(100 * away)} % off`,
    goal: `${short(expected)} within ${100 * part} %`,
    holds: away <= part,
  });
}

/** Notes something that must be so; `why` says what was found in its place. */
export function must(what, holds, why = "") {
  rows.push({ what, value: holds ? "so" : `NOT so ${why}`.trim(), goal: "so", holds: !!holds });
}

/** Notes that a list of complaints must be empty. */
export function none(what, complaints) {
  must(what, complaints.length === 0, complaints.slice(0, 5).join("; "));
}

/** Prints the table; returns whether every goal is met. */
export function conclude() {
  const width = Math.max(...rows.map((row) => row.what.length));
  for (const row of rows) {
    console.log(`${row.holds ? "  " : "! "}${row.what.padEnd(width)}  ${row.value}  (${row.goal})`);
  }
  const missed = rows.filter((row) => !row.holds).length;
  console.log(`view: ${rows.length} figures, ${missed} missed`);
  return missed === 0;
}

const short = (value) =>
  Math.abs(value) >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
