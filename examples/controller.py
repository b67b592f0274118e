"""Keeps the delays of classes in proportion to targets, by moving weight between them on a running link.

    python3 examples/controller.py home --direction upload --target voice=20 --target film=100

Every few seconds it reads the p99 delay of each class with a target (in ms) from the link, and divides
it by the target: the class's congestion index, as quadros' router was to have it. If the largest index
is above 1, that class gets more weight; if the smallest is below a half, that one gives some back. Each
change is in `weir log`, and the classes without a target keep their weights. It ends with Ctrl-C or after
`--steps`. It needs the module `weir` (weir-python/README.md) and a scheduler with weights.
"""

import argparse
import re
import sys
import time

import weir

STEP = 1.3
"""A change multiplies or divides a weight by this, and makes it at least 1 larger or smaller."""
LEAST, MOST = 1, 1000
"""No weight is moved out of this range."""
BUSY = 1.0
"""Above this index a class gets more weight."""
IDLE = 0.5
"""Below it one gives weight back, down to what it began with."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", help="the name of the deployment")
    parser.add_argument("--direction", required=True)
    parser.add_argument("--target", action="append", required=True, type=target, metavar="CLASS=MS")
    parser.add_argument("--every", type=float, default=3.0, metavar="SECONDS")
    parser.add_argument("--steps", type=int, metavar="N")
    parser.add_argument("--control", help="the control socket, instead of the one of the name")
    given = parser.parse_args()
    controller = Controller(weir.connect(given.name, given.control), given.direction, dict(given.target))
    try:
        while given.steps is None or controller.steps < given.steps:
            time.sleep(given.every)
            print(controller.step(), flush=True)
    except KeyboardInterrupt:
        pass
    except (weir.Error, OSError) as error:
        sys.exit(f"controller: {error}")


def target(text):
    """Reads CLASS=MS."""
    name, equals, limit = text.partition("=")
    if not equals or not re.fullmatch(r"[0-9.]+", limit) or float(limit) <= 0:
        raise argparse.ArgumentTypeError(f"`{text}` is no target; write one as voice=20")
    return name, float(limit)


class Controller:
    """Weights of a link, and what they were at first."""

    def __init__(self, link, direction, targets):
        self.link, self.direction, self.targets = link, direction, targets
        self.steps = 0
        self.weights = {name: self.weight(row) for name, row in self.classes().items()}
        self.first = dict(self.weights)

    def classes(self):
        """The classes that have targets."""
        lanes = {lane["name"]: lane for lane in self.link.status()["lanes"]}
        if self.direction not in lanes:
            raise ValueError(f"no direction is called `{self.direction}`; there are {', '.join(lanes)}")
        rows = {row["name"]: row for row in lanes[self.direction]["classes"]}
        missing = [name for name in self.targets if name not in rows]
        if missing:
            raise ValueError(f"no class is called `{missing[0]}`; there are {', '.join(rows)}")
        return {name: rows[name] for name in self.targets}

    def weight(self, row):
        """The weight of a class."""
        values = dict(row["parameters"])
        if "weight" not in values:
            raise ValueError(f"class `{row['name']}` has no weight; its scheduler has none")
        return int(values["weight"])

    def indices(self):
        """The congestion index of each class that sent something lately."""
        rows = {name: row["recent"] for name, row in self.classes().items()}
        return {name: recent["delay"]["p99_us"] / 1e3 / self.targets[name]
                for name, recent in rows.items() if recent and recent["delay_packets"]}

    def step(self):
        """Measures, changes a weight if one has to be, and says what it did."""
        self.steps += 1
        indices = self.indices()
        if not indices:
            return "no packets"
        most, least = max(indices, key=indices.get), min(indices, key=indices.get)
        told = ", ".join(f"{name} {index:.2f}" for name, index in indices.items())
        weight = None
        if indices[most] > BUSY:
            weight = min(MOST, max(round(self.weights[most] * STEP), self.weights[most] + 1))
            name = most
        elif indices[least] < IDLE and self.weights[least] > self.first[least]:
            lower = min(round(self.weights[least] / STEP), self.weights[least] - 1)
            weight, name = max(LEAST, self.first[least], lower), least
        if weight is None or weight == self.weights[name]:
            return f"{told}: nothing to do"
        reason = f"index {indices[name]:.2f}"
        self.link.set({f"{self.direction}:class.{name}.weight": str(weight)}, reason=reason)
        said = f"{told}: weight of {name} {self.weights[name]} -> {weight}"
        self.weights[name] = weight
        return said


if __name__ == "__main__":
    main()
