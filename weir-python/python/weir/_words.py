"""What a search found, in words."""

from __future__ import annotations

import json
from dataclasses import dataclass

from . import _weir
from ._promises import bounds_of, tested
from ._search import Candidate, Search


@dataclass
class Found:
    """The pick beside the policy as it was, with the same fresh seeds."""

    before: Candidate
    after: Candidate
    runs: int
    bounds: list[float | None]
    """The longest delay that any traffic can have, in s, of each condition that a bound decides."""
    verdicts: list[tuple[str, str]]
    """Of each promise that is no condition, before and after, as `weir.test` has them."""

    @classmethod
    def of(cls, search: Search, before: Candidate, after: Candidate) -> Found:
        """Computes the bounds, and tests the promises that are no conditions."""
        policies = [search.policy_of(row) for row in (before, after)]
        verdicts = [tested(policy, search.promises, search.folder, search.fresh)
                    for policy in policies]
        runs = search.fresh * len(search.scenarios)
        bounds = bounds_of(policies[1], search.conditions)
        return cls(before, after, runs, bounds, list(zip(*verdicts)))

    def kept(self) -> bool:
        """Whether the pick keeps every condition, and every promise of the policy."""
        return self.after.kept() and all(verdict == "kept" for _, verdict in self.verdicts)

    def explain(self, search: Search) -> str:
        """Says what changed, what comes of it, and which condition binds."""
        before, after = self.before, self.after
        lines = []
        for knob in search.knobs:
            new = after.values[knob.key]
            if new != knob.old:
                lines.append(f"`{knob.key}`: {new} instead of {knob.old}")
        if not lines:
            lines.append("Nothing changes: no values that were tried are better.")
        lines.append(f"Worst of {self.runs} runs with fresh seeds, before and after:")
        lines += [f"  {self.condition(search, place)}" for place in range(len(search.conditions))]
        for promise, (was, now) in zip(search.promises, self.verdicts):
            lines.append(f"  {promise['that']} (the policy's promise under {promise['under']}): "
                         f"{was}, {now if now == 'kept' else now.upper()} by `weir test`")
        for place, objective in enumerate(search.objectives):
            means = (objective.told(row.scores[place]) for row in (before, after))
            told = ", ".join("none" if mean is None else f"{mean:.4g}" for mean in means)
            lines.append(f"  {objective.text}, mean: {told} {objective.unit}")
        if len(search.objectives) > 1:
            first = search.objectives[0].text
            lines.append(f"  `{first}` decides the pick; what it costs in the others, the front shows")
        lines += [f"  {line}" for line in classes(search, before, after)]
        if search.conditions:
            binding = min(range(len(search.conditions)), key=lambda place: after.margins[place])
            lines.append(f"Closest to its limit: `{search.conditions[binding].text}`.")
        return "\n".join(lines)

    def condition(self, search: Search, place: int) -> str:
        """Says what becomes of a condition, in runs and by bounds."""
        condition, bound = search.conditions[place], self.bounds[place]
        was, now = (condition.write(row.results[place]) for row in (self.before, self.after))
        verdict = "holds" if self.after.margins[place] >= 0 else "BROKEN"
        whose = f" (the policy's promise under {condition.under})" if condition.under else ""
        always = "no bound decides it" if bound is None else \
            f"at most {condition.write(bound)} for any traffic within the declared arrivals"
        return (f"{condition.text}{whose}: {was}, {now}: {verdict}, "
                f"{100 * self.after.margins[place]:.1f} % to spare; {always}")


def classes(search: Search, before: Candidate, after: Candidate) -> list[str]:
    """Says what each class gains and loses, by simulation of each scenario and by bounds."""
    lines = []
    policies = [search.policy_of(row) for row in (before, after)]
    for number, stage in enumerate(search.scenarios):
        texts = [_weir.write_toml(json.dumps({**stage.scenario, "policy": policy}))
                 for policy in policies]
        reports = [_weir.simulate(text, stage.folder, search.seed) for text in texts]
        for was, now in zip(*(report["classes"] for report in reports)):
            (old, new) = (row["delay_us"]["p99"] for row in (was, now))
            if was["sent"]["bytes"] or now["sent"]["bytes"]:
                change = now["sent"]["bytes"] / max(1, was["sent"]["bytes"]) - 1
                delays = "" if old is None or new is None else \
                    f", p99 {old / 1e3:.1f} to {new / 1e3:.1f} ms"
                lines.append(f"scenario {number + 1}, {was['name']}: "
                             f"{100 * change:+.1f} % bytes{delays}")
    bounds = [_weir.bounds(_weir.write_toml(json.dumps(policy))) for policy in policies]
    for was, now in zip(*bounds):
        if was["at_least_bps"] != now["at_least_bps"] and now["at_least_bps"]:
            lines.append(f"{was['class']} always gets {now['at_least_bps'] / 1e6:.3f} Mbit/s, "
                         f"{(was['at_least_bps'] or 0) / 1e6:.3f} before")
    return lines
