"""What the tests share: texts of policies and scenarios, and a test with a folder of its own."""

import faulthandler
import importlib.util
import os
import tempfile
import unittest
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTHON = HERE.parent / "python"
EXAMPLES = HERE.parent.parent / "examples"

# A lock that is not released ends in a trace, not in a silent hang.
faulthandler.dump_traceback_later(600, exit=True)


def needs(*libraries):
    """Skips a test where one of these libraries is not installed.

    With WEIR_REQUIRE_PYTHON=1, as in CI, the test runs all the same, and fails. Only Ray may be
    missing there.
    """
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    required = os.environ.get("WEIR_REQUIRE_PYTHON") == "1" and "ray" not in missing
    return unittest.skipIf(missing and not required, f"needs {', '.join(missing)}")


POLICY = """
link = { rate = '1 Mbit/s', scheduler = 'fifo' }
[class.all]
default = true
queue = { limit = '2 packets' }
"""

SCENARIO = """
policy = "home.toml"
duration = "%s"
[[source]]
name = "arrivals"
kind = "poisson"
size = "125 B"
rate = "800 kbit/s"
"""


class Folder(unittest.TestCase):
    """A test with a folder of its own, in which an unexpected warning is an error."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.simplefilter("error")

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())
