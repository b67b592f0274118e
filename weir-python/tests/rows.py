"""Runs the tests of a file, and prints as JSON what became of each: its state and why."""

import json
import sys
import unittest


class Result(unittest.TextTestResult):
    """Knows which tests were started: those of a class that cannot be set up are not."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.started = set()

    def startTest(self, test):
        self.started.add(test.id())
        super().startTest(test)


def tests(suite):
    """Returns the tests of a suite, one by one."""
    if isinstance(suite, unittest.TestSuite):
        return [test for part in suite for test in tests(part)]
    return [suite]


def of(test):
    """Returns the name of a test, of the one that a part belongs to, or of a class."""
    return getattr(test, "test_case", test).id()


def main(folder, pattern):
    suite = unittest.defaultTestLoader.discover(folder, pattern)
    names = [test.id() for test in tests(suite)]
    runner = unittest.TextTestRunner(stream=sys.stderr, verbosity=2, resultclass=Result)
    result = runner.run(suite)
    rows = {name: ["passed", ""] for name in names if name in result.started}
    told = [("ignored", result.skipped), ("failed", result.failures), ("failed", result.errors)]
    told.append(("failed", [(test, "it passes") for test in result.unexpectedSuccesses]))
    for state, found in told:
        for test, why in found:
            name = of(test)
            place = name.partition("(")[2].rstrip(")")
            alike = [other for other in names if place and other.startswith(f"{place}.")]
            for row in alike or [name]:
                rows[row] = [state, why]
    json.dump(rows, sys.stdout)


# Workers of a sweep import this file again.
if __name__ == "__main__":
    main(*sys.argv[1:])
