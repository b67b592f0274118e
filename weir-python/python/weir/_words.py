"""What a search found, in words."""

from __future__ import annotations

import json
from dataclasses import dataclass

from . import _weir
from ._promises import bounds_of, tested
from ._search import Candidate, Search


LOSS_MAX = 0.05
"""The part of its packets that a class may lose without a warning."""


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
        effects, lines = classes(search, before, after)
        for knob in search.knobs:
            new = after.values[knob.key]
            if new != knob.old:
                lines.append(f"`{knob.key}`: {new} instead of {knob.old}")
        if all(after.values[knob.key] == knob.old for knob in search.knobs):
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
        lines += [f"  {line}" for line in effects]
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


def classes(search: Search, before: Candidate, after: Candidate) -> tuple[list[str], list[str]]:
    """Says what each class gains and loses, by simulation of each scenario and by bounds.

    The second list warns of classes that lose much of what they sent.
    """
    lines, warnings = [], []
    policies = [_weir.write_toml(json.dumps(search.policy_of(row))) for row in (before, after)]
    bounds = [_weir.bounds(policy) for policy in policies]
    names = [row["class"] for row in bounds[1]]
    for stage in search.scenarios:
        for place in stage.places:
            heads = [f"{place}{name}" for name in names]
            metrics = [f"{head}.{end}" for head in heads for end in ("rate", "delay.p99", "loss")]
            was, now = (search.measured(stage, row.values, (search.seed, 1), metrics)[0]
                        for row in (before, after))
            for head in heads:
                (old_rate, old_delay, old_loss), (rate, delay, loss) = (
                    [row[f"{head}.{end}"] for end in ("rate", "delay.p99", "loss")]
                    for row in (was, now))
                if old_rate or rate:
                    change = (rate or 0.0) / max(1.0, old_rate or 0.0) - 1
                    delays = "" if old_delay is None or delay is None else \
                        f", p99 {old_delay * 1e3:.1f} to {delay * 1e3:.1f} ms"
                    lines.append(f"{stage.label}, {head}: {100 * change:+.1f} % bytes{delays}")
                if loss is not None and loss > LOSS_MAX:
                    warnings.append(f"Warning: `{head}` loses {100 * loss:.1f} % of what it sent, "
                                    f"{100 * (old_loss or 0.0):.1f} % before ({stage.label}).")
    for old, new in zip(*bounds):
        if old["at_least_bps"] != new["at_least_bps"] and new["at_least_bps"]:
            lines.append(f"{old['class']} always gets {new['at_least_bps'] / 1e6:.3f} Mbit/s, "
                         f"{(old['at_least_bps'] or 0) / 1e6:.3f} before")
    return lines, warnings
