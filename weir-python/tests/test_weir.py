"""The module `weir` as a user of Python sees it. Needs only the standard library; what is tried with
pyarrow, polars, pandas, mypy and pyright is skipped where these are not installed.

`cargo test -p weir-python` runs it against the module that it built; by hand, with `weir` to be
found by `import`: python3 test_weir.py
"""

import ast
import ctypes
import doctest
import faulthandler
import importlib.util
import inspect
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from pathlib import Path

import weir
from weir._knobs import knobs_of
from weir._wanted import Condition
from weir import _weir

from running_link import RunningLink

HERE = Path(__file__).resolve().parent
PYTHON = HERE.parent / "python"
EXAMPLES = HERE.parent.parent / "examples"

POLICY = """
link = { rate = '1 Mbit/s', scheduler = 'fifo' }
[class.all]
default = true
queue = { limit = '2 packets' }
"""

# The error is in line 4, at the value.
FAULTY = """
[link]
rate = "1 Mbit/s"
scheduler = "nosuch"
[class.all]
default = true
"""

# No packet of 1500 bytes fits a queue of 100.
WARNED = """
[link]
rate = "1 Mbit/s"
scheduler = "fifo"
[class.all]
default = true
queue = { limit = "100 B" }
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


def capture(frames):
    """A pcap file of `frames` frames of 60 bytes, all at one instant: 480 us each at 1 Mbit/s."""
    words = struct.pack("<6I", 0xA1B2C3D4, 0x00040002, 0, 0, 65535, 1)
    frame = struct.pack("<4I", 1_700_000_000, 0, 60, 60) + bytes(60)
    return words + frames * frame


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


class Check(unittest.TestCase):
    def check(self, text, *expected):
        rows = weir.check(text, "mine.toml")
        found = [(row["code"], row["severity"], row["line"], row["column"]) for row in rows]
        self.assertEqual(found, list(expected), rows)
        for row in rows:
            self.assertEqual(row["file"], "mine.toml")
            self.assertTrue(row["message"] and row["cure"])

    def test_findings_have_their_place(self):
        self.check(POLICY)
        self.check(FAULTY, ("W016", "error", 4, 13))
        self.check("\n\nlink = ", ("W003", "error", 3, 8))

    def test_a_finding_has_exactly_the_fields_of_the_stub(self):
        stub = stub_class("Finding")
        (row,) = weir.check(FAULTY)
        self.assertEqual(list(row), [field.target.id for field in stub if hasattr(field, "target")])
        self.assertEqual(row["file"], "policy.toml")

    def test_the_examples_have_no_errors(self):
        for path in sorted(EXAMPLES.glob("*.toml")):
            rows = weir.check(path.read_text(), str(path))
            errors = [row for row in rows if row["severity"] == "error"]
            self.assertEqual(errors, [], path.name)

    def test_a_deployment_is_checked_with_the_policies_that_it_names(self):
        with tempfile.TemporaryDirectory() as folder:
            deployment = (EXAMPLES / "home.toml").read_text()
            rows = weir.check(deployment, os.path.join(folder, "home.toml"))
            self.assertIn("W004", [row["code"] for row in rows], rows)

    def test_what_is_no_text_is_refused(self):
        for text in (None, b"", 7):
            with self.assertRaises(TypeError):
                weir.check(text)
        with self.assertRaises(UnicodeEncodeError):
            weir.check("\ud800")


class Simulate(Folder):
    def simulate(self, duration="10 s", **options):
        self.write("home.toml", POLICY)
        return weir.simulate(SCENARIO % duration, base_dir=self.folder, **options)

    def test_the_report_is_the_documented_one(self):
        report = self.simulate()
        self.assertEqual(report["scenario"], "scenario")
        self.assertEqual((report["seed"], report["duration_s"]), (1, 10))
        self.assertEqual(report["link"]["rate_bps"], 1_000_000)
        (one,) = report["classes"]
        offered, sent, backlog = (one[key]["packets"] for key in ("offered", "sent", "backlog"))
        self.assertEqual(offered, sent + one["dropped"]["total"]["packets"] + backlog)
        # 800 packets a second are expected; Poisson's deviation over 10 s is 89.
        self.assertAlmostEqual(offered, 8000, delta=500)
        self.assertIs(report["conservation"]["holds"], True)
        self.assertEqual(report["sources"][0]["tcp"], None)

    def test_one_seed_is_one_run(self):
        first, again, other = self.simulate(), self.simulate(seed=1), self.simulate(seed=2)
        self.assertEqual(first, again)
        self.assertNotEqual(first["classes"], other["classes"])
        self.assertEqual(other["seed"], 2)

    def test_errors_are_raised_with_their_findings(self):
        self.write("home.toml", FAULTY)
        with self.assertRaises(weir.Error) as caught:
            weir.simulate(SCENARIO % "1 s", base_dir=str(self.folder))
        found = [(row["file"], row["code"]) for row in caught.exception.findings]
        self.assertIn(("home.toml", "W016"), found)
        for part in ("home.toml:4:13", "nosuch", "fifo"):
            self.assertIn(part, str(caught.exception))

    def test_without_a_folder_the_policy_lies_in_the_working_directory(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        with self.assertRaises(weir.Error) as caught:
            weir.simulate(SCENARIO % "1 s")
        self.assertEqual([row["code"] for row in caught.exception.findings], ["W004"])
        self.write("home.toml", POLICY)
        self.assertGreater(weir.simulate(SCENARIO % "1 s")["classes"][0]["sent"]["packets"], 0)

    def test_a_seed_is_a_number_of_64_bits(self):
        for seed in (-1, 2**64):
            with self.assertRaises(OverflowError):
                self.simulate(seed=seed)
        self.assertEqual(self.simulate(seed=2**64 - 1)["seed"], 2**64 - 1)

    def test_other_threads_go_on_meanwhile(self):
        started = threading.Event()

        def run():
            started.set()
            self.simulate("4000 s")

        worker = threading.Thread(target=run)
        worker.start()
        started.wait()
        turns = 0
        while worker.is_alive():
            time.sleep(0.0001)
            turns += 1
        # With the lock held there would be one or two turns: before and after the run.
        self.assertGreater(turns, 10)


class Replay(Folder):
    def test_a_capture_goes_through_the_policy(self):
        out = self.folder / "out.pcapng"
        report = weir.replay(POLICY, self.write("in.pcap", capture(5)), str(out))
        self.assertEqual(report["capture"]["frames"], 5)
        (one,) = report["classes"]
        # One is on the line, two wait, two find the leaf full.
        self.assertEqual((one["sent"]["packets"], one["dropped"]["full"]["packets"]), (3, 2))
        self.assertEqual(report["span_s"], one["sent"]["bytes"] * 8 / 1e6)
        self.assertIsNone(report["fault"])
        self.assertEqual(out.read_bytes().count(b"class=all delay_us="), 3)
        self.assertEqual(weir.replay(POLICY, self.folder / "in.pcap"), report)
        self.assertEqual(self.names(), ["in.pcap", "out.pcapng"])

    def test_damage_is_reported_and_warned_of(self):
        path = self.write("in.pcap", capture(3)[:-1])
        with self.assertWarnsRegex(UserWarning, "cut short") as caught:
            report = weir.replay(POLICY, path, self.folder / "out.pcapng")
        self.assertEqual(Path(caught.filename).name, "test_weir.py")
        self.assertEqual((report["capture"]["frames"], report["fault"]["frames"]), (2, 2))
        self.assertEqual(self.names(), ["in.pcap", "out.pcapng"])

    def test_what_cannot_be_used_raises_and_writes_nothing(self):
        good, text = self.write("in.pcap", capture(1)), self.write("text", "no capture")
        link = self.folder / "link"
        link.symlink_to(good)
        out, missing = self.folder / "out", self.folder / "missing" / "file"
        before = self.names()
        rows = [
            (weir.Error, "nosuch", (FAULTY, good, out)),
            (weir.Error, "is not a capture", (POLICY, text, out)),
            (weir.Error, "name another file", (POLICY, good, link)),
            (weir.Error, "not a regular file", (POLICY, good, self.folder)),
            (FileNotFoundError, "cannot read .*missing", (POLICY, missing, out)),
            (FileNotFoundError, "cannot write .*missing", (POLICY, good, missing)),
            (IsADirectoryError, "cannot read", (POLICY, self.folder, out)),
        ]
        for error, message, arguments in rows:
            with self.subTest(message), self.assertRaisesRegex(error, message) as caught:
                weir.replay(*arguments)
            if error is weir.Error:
                found = [row["code"] for row in caught.exception.findings]
                self.assertEqual(found, ["W016"] if message == "nosuch" else [])
            self.assertEqual(self.names(), before)
        self.assertEqual(good.read_bytes(), capture(1))

    def test_warnings_are_pythons_and_a_promise_is_none(self):
        path = self.write("in.pcap", capture(1))
        promise = "[[promise]]\nthat = 'all.delay.p99 < 10 ms'\nunder = 'mix.toml'\n"
        self.assertEqual(weir.check(POLICY + promise), [])
        weir.replay(POLICY + promise, path)
        self.assertEqual([row["severity"] for row in weir.check(WARNED)], ["warning"])
        with self.assertWarnsRegex(UserWarning, "policy.toml:7:") as caught:
            weir.replay(WARNED, path)
        self.assertEqual(Path(caught.filename).name, "test_weir.py")

    @unittest.skipUnless(hasattr(os, "mkfifo"), "needs named pipes")
    def test_other_threads_go_on_meanwhile(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        # If the reader held Python's lock, no thread could write to the pipe.
        writer = threading.Thread(target=lambda: pipe.write_bytes(capture(2)))
        writer.start()
        self.assertEqual(weir.replay(POLICY, pipe)["capture"]["frames"], 2)
        writer.join()


class Registries(unittest.TestCase):
    def check(self, rows, scopes):
        self.assertEqual(len({row["keyword"] for row in rows}), len(rows))
        for row in rows:
            self.assertTrue(row["summary"] and row["sources"], row)
            for parameter in row["parameters"]:
                fields = ["name", "scope", "kind", "default", "summary"]
                self.assertEqual(list(parameter), fields)
                self.assertIn(parameter["scope"], scopes)
                types = ("quantity", "number", "size", "flag", "choice", "limit")
                self.assertIn(parameter["kind"]["type"], types)

    def test_every_row_says_what_it_is(self):
        self.check(weir.schedulers(), ("link", "class", "leaf"))
        self.check(weir.droppers(), ("queue",))

    def test_a_policy_may_name_every_scheduler_and_no_other(self):
        for row in weir.schedulers():
            text = POLICY.replace("fifo", row["keyword"])
            codes = [found["code"] for found in weir.check(text)]
            self.assertNotIn("W016", codes, row["keyword"])
        (found,) = weir.check(FAULTY)
        for row in weir.schedulers():
            self.assertIn(row["keyword"], found["message"] + found["cure"])

    def test_a_known_row_is_told_whole(self):
        (drr,) = [row for row in weir.schedulers() if row["keyword"] == "drr"]
        promises = {"work_conserving": True, "hierarchical": False, "cost": "constant"}
        self.assertEqual(drr["promises"], promises)
        (quantum,) = drr["parameters"]
        self.assertEqual((quantum["name"], quantum["scope"]), ("quantum", "leaf"))
        self.assertEqual(quantum["kind"]["type"], "size")
        self.assertLess(0, quantum["kind"]["min"])
        self.assertLess(quantum["kind"]["min"], quantum["kind"]["max"])


class Stub(unittest.TestCase):
    def test_it_has_the_names_and_parameters_of_the_module(self):
        stubs = [node for node in stub().body if isinstance(node, ast.FunctionDef)]
        classes = {"Error", "Reservation", "SweepRuns", "SweepTable", "Table"}
        compiled = {name for name in vars(_weir) if not name.startswith("_")}
        self.assertEqual(compiled, {node.name for node in stubs} | classes)
        for node in stubs:
            parameters = inspect.signature(getattr(_weir, node.name)).parameters.values()
            names = [parameter.name for parameter in parameters]
            written = [argument.arg for argument in node.args.args]
            known = [argument.arg for argument in node.args.kwonlyargs]
            if any(each.kind == inspect.Parameter.VAR_KEYWORD for each in parameters):
                # The stub tells them; another one is refused.
                names.remove("options")
                with self.assertRaisesRegex(TypeError, ", ".join(known)):
                    getattr(_weir, node.name)(*required(parameters), nosuch=1)
            else:
                written += known
            self.assertEqual(names, written, node.name)
            defaults = [each.default for each in parameters if each.default is not each.empty]
            defaults = [[] if default is ... else default for default in defaults]
            written = node.args.defaults + (node.args.kw_defaults if names[-1:] == known[-1:] else [])
            self.assertEqual(defaults, [ast.literal_eval(each) for each in written], node.name)

    def test_everything_is_documented(self):
        self.assertTrue(weir.__doc__)
        for name in weir.__all__:
            thing = getattr(weir, name)
            self.assertTrue(thing.__doc__, name)
            own = vars(thing) if inspect.isclass(thing) else {}
            for member, value in own.items():
                if not member.startswith("_") and callable(value):
                    self.assertTrue(value.__doc__, f"{name}.{member}")

    def test_examples_in_docstrings_are_right(self):
        count = 0
        for thing in [weir] + [getattr(weir, name) for name in weir.__all__]:
            for example in doctest.DocTestFinder(recurse=False).find(thing, globs={}):
                count += len(example.examples)
                failed = doctest.DocTestRunner(verbose=False).run(example).failed
                self.assertEqual(failed, 0, thing)
        self.assertGreater(count, 10)

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "needs mypy")
    def test_mypy_finds_nothing(self):
        self.typed(["mypy", "--strict", "--cache-dir", os.devnull])

    @unittest.skipUnless(importlib.util.find_spec("pyright"), "needs pyright")
    def test_pyright_finds_nothing(self):
        self.typed(["pyright"])

    def typed(self, checker):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(PYTHON / "weir", Path(folder) / "weir")
            user = Path(folder) / "user.py"
            user.write_text(USER)
            told = subprocess.run(
                [sys.executable, "-m", *checker, "user.py", "weir"],
                cwd=folder, capture_output=True, text=True, env=without_path(),
            )
            self.assertEqual(told.returncode, 0, told.stdout + told.stderr)
            # A checker that finds nothing in anything proves nothing.
            user.write_text(USER + "weir.simulate(7)\n")
            told = subprocess.run(
                [sys.executable, "-m", *checker, "user.py"],
                cwd=folder, capture_output=True, text=True, env=without_path(),
            )
            self.assertNotEqual(told.returncode, 0, told.stdout)


# Without that the checkers would see the copy beside this test.
def without_path():
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


USER = """
import weir

report = weir.simulate("", packets=True)
rows: int = len(report.packets)
link = weir.connect("home")
link.set({"class.voice.rate": "2 Mbit/s"}, dry_run=True)
codes: list[str] = [finding["code"] for finding in weir.check("")]
"""


def required(parameters):
    """Arguments for the parameters without a default."""
    own = [each for each in parameters if each.kind != inspect.Parameter.VAR_KEYWORD]
    return [[] if each.name == "schedulers" else "" for each in own if each.default is each.empty]


class Effects(Folder):
    def test_bounds_are_those_of_the_command(self):
        text = (EXAMPLES / "home.toml").read_text()
        policy = (EXAMPLES / "home-cbq.toml").read_text()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = weir.bounds(policy, "home-cbq.toml")
            self.assertTrue(rows)
            for row in rows:
                self.assertLessEqual(row["at_least_bps"], row["alone_bps"] * 1.000001)
            with self.assertRaises(weir.Error) as caught:
                weir.bounds(text)
        self.assertTrue(caught.exception.findings, "a deployment is no policy")

    def test_a_difference_is_found_and_none_where_none_is(self):
        self.assertEqual(weir.diff(POLICY, POLICY)["settings"], [])
        changed = weir.diff(POLICY, POLICY.replace("2 packets", "3 packets"))
        (row,) = changed["settings"]
        self.assertEqual((row["class"], row["before"], row["after"]), ("all", "2 packets", "3 packets"))

    def test_a_policy_is_converted_or_the_reason_is_told(self):
        converted = weir.convert(POLICY, "drr")
        self.assertEqual((converted["written_for"], converted["scheduler"]), ("fifo", "drr"))
        self.assertEqual(weir.check(converted["policy"]), converted["findings"])
        with self.assertRaisesRegex(ValueError, "no scheduler is called `dr`"):
            weir.convert(POLICY, "dr")
        with self.assertRaises(weir.Error) as caught:
            weir.convert(FAULTY, "drr")
        self.assertEqual([row["code"] for row in caught.exception.findings], ["W016"])

    def test_other_tools_files_are_read(self):
        text = (EXAMPLES.parent / "docs/guide/from-tc.sh").read_text()
        made = weir.import_("tc", text, name="from-tc.sh")
        for one in made["policies"]:
            errors = [row for row in weir.check(one["policy"]) if row["severity"] == "error"]
            self.assertEqual(errors, [])
        self.assertTrue(made["lines"])
        with self.assertRaisesRegex(ValueError, "altq, pf, tc"):
            weir.import_("ipfw", text)
        with self.assertRaisesRegex(ValueError, "ambiguous"):
            weir.import_("tc", text, rate="5 mbps")

    def test_a_scenario_is_checked_with_its_policy(self):
        self.write("home.toml", FAULTY)
        scenario = SCENARIO % "1 s"
        rows = weir.check(scenario, str(self.folder / "evening.toml"))
        self.assertIn("W016", [row["code"] for row in rows])


class Runs(Folder):
    def test_schedulers_are_compared(self):
        self.write("home.toml", POLICY)
        compared = weir.compare(SCENARIO % "5 s", ["fifo", "drr"], self.folder, replications=2)
        self.assertEqual([row["scheduler"] for row in compared["rows"]], ["fifo", "drr"])
        self.assertEqual([row["runs"] for row in compared["rows"]], [2, 2])
        with self.assertRaisesRegex(ValueError, "no scheduler"):
            weir.compare(SCENARIO % "5 s", ["nosuch"], self.folder)

    def test_promises_are_tested(self):
        self.write("mix.toml", SCENARIO % "5 s")
        promise = "[[promise]]\nthat = 'all.delay.p99 < %s'\nunder = 'mix.toml'\n"
        for goal, verdict in (("1 s", "kept"), ("1 us", "broken")):
            text = POLICY + promise % goal
            self.write("home.toml", text)
            tested = weir.test(text, self.folder, runs=3)
            (row,) = tested["promises"]
            self.assertEqual((row["verdict"], tested["runs"]), (verdict, 3))
        with self.assertRaisesRegex(weir.Error, "promises nothing"):
            weir.test(POLICY, self.folder)

    def test_an_experiment_of_a_paper_runs(self):
        (first, *_) = [row["id"] for row in weir.lab() if row["id"].startswith("benita-")] or [None]
        listed = {row["id"] for row in weir.lab()}
        self.assertGreater(len(listed), 20)
        with self.assertRaisesRegex(ValueError, "no experiment"):
            weir.lab("nosuch")
        outcomes = weir.lab("N-1" if "N-1" in listed else sorted(listed)[0], era="sound")
        for outcome in outcomes:
            self.assertEqual(outcome["era"], "sound")
            self.assertTrue(outcome["claims"])

    def test_ctrl_c_ends_a_run(self):
        self.write("home.toml", POLICY)
        timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        begun = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            weir.simulate(SCENARIO % "1000000 s", base_dir=self.folder)
        # The run would take minutes.
        self.assertLess(time.monotonic() - begun, 5)
        timer.join()


class Tables(Folder):
    def report(self):
        self.write("home.toml", POLICY)
        return weir.simulate(SCENARIO % "2 s", self.folder, packets=True, series="500 ms")

    def test_packets_and_series_are_those_of_the_report(self):
        report = self.report()
        rows = report.packets.to_dict()
        (one,) = report["classes"]
        self.assertEqual(rows["verdict"].count("sent"), one["sent"]["packets"])
        self.assertEqual(len(report.packets), one["sent"]["packets"] + one["dropped"]["total"]["packets"])
        self.assertEqual(max(rows["delay_ns"]), round(one["delay_us"]["max"] * 1000))
        series = report.series.to_dict()
        sent = sum(series["sent_bps"][:4]) * 0.5 / 8
        self.assertAlmostEqual(sent, one["sent"]["bytes"], delta=0.01 * sent)
        self.assertEqual(series["start_s"][:4], [0.0, 0.5, 1.0, 1.5])

    def test_watching_changes_nothing(self):
        self.assertEqual(self.report(), weir.simulate(SCENARIO % "2 s", self.folder))

    def test_a_table_has_columns_of_one_kind(self):
        table = weir.Table({"a": [1, None], "b": [1, 2.5], "c": ["x", None], "d": [True, False]})
        self.assertEqual(table.to_dict()["b"], [1.0, 2.5])
        self.assertEqual(table.to_dict()["c"], ["x", None])
        with self.assertRaisesRegex(TypeError, "numbers, texts"):
            weir.Table({"a": [1, "x"]})
        with self.assertRaisesRegex(ValueError, "length|rows"):
            weir.Table({"a": [1], "b": [1, 2]})

    def test_jupyter_shows_reports_and_tables(self):
        report = self.report()
        self.assertIn("<td>all</td>", report._repr_html_())
        self.assertIn("rows more", report.packets._repr_html_())
        self.assertIn("&lt;b&gt;", weir.Table({"<b>": [1]})._repr_html_())

    @unittest.skipUnless(importlib.util.find_spec("pyarrow"), "needs pyarrow")
    def test_pyarrow_opens_tables_without_a_copy(self):
        import pyarrow

        report = self.report()
        table = pyarrow.table(report.packets)
        self.assertEqual(table.column("delay_ns").to_pylist(), report.packets.to_dict()["delay_ns"])
        again = pyarrow.table(report.packets)
        places = [each.column("time_ns").chunk(0).buffers()[1].address for each in (table, again)]
        self.assertEqual(places[0], places[1], "both have the memory of the table")
        del report
        self.assertGreater(table.num_rows, 0)

    @unittest.skipUnless(importlib.util.find_spec("polars"), "needs polars")
    def test_polars_opens_tables(self):
        import polars

        report = self.report()
        frame = polars.DataFrame(report.packets)
        self.assertEqual(frame["class"].to_list(), report.packets.to_dict()["class"])
        self.assertEqual(polars.DataFrame(report.table())["name"].to_list(), ["all"])

    @unittest.skipUnless(importlib.util.find_spec("pandas"), "needs pandas")
    def test_pandas_opens_tables(self):
        import pandas

        report = self.report()
        frame = pandas.DataFrame.from_arrow(report.packets)
        self.assertEqual(list(frame["delay_ns"]), report.packets.to_dict()["delay_ns"])
        self.assertEqual(list(frame["verdict"]), report.packets.to_dict()["verdict"])


class Models(Folder):
    def test_every_example_keeps_its_meaning(self):
        count = 0
        for path in sorted(EXAMPLES.rglob("*.toml")):
            text = path.read_text()
            keys = _weir.parse_toml(text)
            kind = weir.Scenario if "source" in keys else weir.Policy if "link" in keys else None
            if kind is None:
                continue
            count += 1
            again = kind.from_toml(text).to_toml()
            back = _weir.parse_toml(again)
            self.assertEqual(back, keys, path)
            # The order of classes decides ties.
            self.assertEqual(list(back.get("class", [])), list(keys.get("class", [])), path)
            found = [[row["code"] for row in weir.check(each, str(path))] for each in (text, again)]
            self.assertEqual(*found, path)
        self.assertGreater(count, 15)

    def test_objects_are_changed_and_run(self):
        scenario = weir.Scenario.from_toml((EXAMPLES / "walk/evening.toml").read_text())
        self.assertEqual(scenario.policy, "uplink.toml")
        policy = weir.Policy.from_toml((EXAMPLES / "walk/uplink.toml").read_text())
        self.assertEqual(policy.classes["voice"].queue.limit, "15 packets")
        policy.link.rate = "19 Mbit/s"
        scenario.policy, scenario.duration = policy, "1 s"
        self.assertEqual(scenario.simulate()["link"]["rate_bps"], 19_000_000)
        self.assertEqual(scenario.sources[0].keys["dport"], 5004)
        policy.classes["voice"].queue = weir.Queue("nosuch")
        self.assertIn("error", [row["severity"] for row in policy.check()])


class Sweeps(Folder):
    GRID = {"policy.link.rate": ["1 Mbit/s", "2 Mbit/s"], "source.arrivals.size": ["125 B", "500 B"]}

    def sweep(self, **options):
        self.write("home.toml", POLICY)
        metrics = ["all.delay.p99", "all.rate", "link.utilisation"]
        options = {"replications": 3, "metrics": metrics, "base_dir": self.folder, **options}
        return weir.sweep(SCENARIO % options.pop("duration", "1 s"), self.GRID, **options)

    def test_engines_give_one_table(self):
        tables = []
        for number, engine in enumerate(("local", "processes", Backwards())):
            path = self.folder / f"{number}.parquet"
            done = self.sweep(path=path, engine=engine, workers=2)
            self.assertEqual((len(done), done.path), (12, path))
            tables.append(path.read_bytes())
        self.assertEqual(len(set(tables)), 1, "they are equal to the byte")
        self.assertFalse(list(self.folder.glob("*.runs")))

    def test_a_row_is_what_simulate_reports(self):
        rows = self.sweep().rows.to_dict()
        text = (SCENARIO % "1 s").replace("125 B", "500 B")
        report = weir.simulate(text, self.folder, seed=rows["seed"][4])
        self.assertEqual((rows["point"][4], rows["replication"][4]), (1, 1))
        self.assertEqual(rows["all.rate"][4], report["classes"][0]["sent"]["bps"])
        delay = report["classes"][0]["delay_us"]["p99"]
        self.assertAlmostEqual(rows["all.delay.p99"][4] * 1e6, delay, places=3)

    def test_a_killed_sweep_goes_on_and_repeats_no_run(self):
        self.sweep(path=self.folder / "whole.parquet", duration="2 s")
        metrics = ["all.delay.p99", "all.rate", "link.utilisation"]
        given = {"scenario": SCENARIO % "2 s", "grid": self.GRID, "replications": 3, "metrics": metrics}
        self.write("given.json", json.dumps(given))
        path = self.folder / "table.parquet"
        program = self.write("program.py", KILLED)
        deaths = 0
        for _ in range(50):
            child = subprocess.run([sys.executable, program, self.folder, path], check=False)
            if child.returncode == 0:
                break
            self.assertEqual(child.returncode, -signal.SIGKILL)
            deaths += 1
        self.assertGreater(deaths, 3)
        self.assertEqual(path.read_bytes(), (self.folder / "whole.parquet").read_bytes())
        done = [json.loads(line) for line in (self.folder / "done").read_text().splitlines()]
        self.assertEqual(len(set(done)), len(done), "no run that was kept is done again")

    def test_ctrl_c_keeps_what_is_done(self):
        path = self.folder / "table.parquet"
        timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        begun = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            self.sweep(path=path, duration="100000 s", workers=2)
        self.assertLess(time.monotonic() - begun, 10)
        timer.join()
        self.assertFalse(path.exists())
        self.assertTrue((self.folder / "table.parquet.runs").exists())

    def test_wrong_sweeps_are_refused(self):
        with self.assertRaisesRegex(weir.Error, "no class `nosuch`"):
            self.sweep(metrics=["nosuch.rate"])
        with self.assertRaisesRegex(ValueError, "one of grid, random and latin"):
            self.sweep(random={"duration": ["1 s", "2 s"]}, points=2)
        with self.assertRaisesRegex(ValueError, "is not local, processes or ray"):
            self.sweep(engine="cloud")
        self.write("table.parquet", "mine")
        with self.assertRaisesRegex(OSError, "of another sweep"):
            self.sweep(path=self.folder / "table.parquet")

    def test_jupyter_shows_means_and_intervals(self):
        done = self.sweep()
        self.assertIn("± all.rate", done._repr_html_())
        self.assertEqual(len(done.summary["points"]), 4)

    @unittest.skipUnless(importlib.util.find_spec("pyarrow"), "needs pyarrow")
    def test_pyarrow_reads_the_file_and_its_provenance(self):
        import pyarrow.parquet

        path = self.folder / "table.parquet"
        done = self.sweep(path=path)
        table = pyarrow.parquet.read_table(path)
        self.assertEqual(table.to_pydict(), done.rows.to_dict())
        metadata = table.schema.metadata
        for key in (b"weir.version", b"weir.commit", b"weir.seed", b"weir.scenario", b"weir.spec"):
            self.assertTrue(metadata[key], key)


TUNED = """[link]
rate = "2 Mbit/s"
scheduler = "wf2q+"
[class.call]
weight = 1                  # of how many
match = [{ dport = 5004 }]
[class.bulk]
weight = 4
default = true
queue = { limit = "50 packets" }
"""
EVENING = """duration = "2 s"
policy = "none.toml"
[[source]]
name = "call"
kind = "cbr"
dport = 5004
size = "1000 B"
rate = "700 kbit/s"
[[source]]
name = "flood"
kind = "cbr"
dport = 5005
size = "1000 B"
rate = "3 Mbit/s"
"""


class Tune(unittest.TestCase):
    def test_a_condition_is_read(self):
        one = Condition.of("call.delay.p99 <= 10 ms")
        self.assertEqual((one.metric, one.below, one.limit), ("call.delay.p99", True, 0.01))
        self.assertAlmostEqual(one.margin(0.008), 0.2)
        self.assertEqual(one.worst([0.001, 0.02]), 0.02)
        self.assertIsNone(one.worst([0.001, None]), "a run without packets shows nothing")
        self.assertEqual(Condition.of("call.rate > 2 Mbit/s").margin(3e6), 0.5)
        for wrong in ("call.delay.p99 10 ms", "call.rate > 2 miles", "call.loss < 0 %",
                      "call.delay.p99 < 60", "call.delay.p99 < 6 Mbit/s", "call.rate > 3 ms"):
            with self.assertRaises(ValueError):
                Condition.of(wrong)

    def test_values_are_written_as_the_policy_writes_them(self):
        knobs = knobs_of(_weir.parse_toml(TUNED), ["class.*"])
        self.assertEqual([knob.key for knob in knobs],
                         ["class.call.weight", "class.bulk.weight", "class.bulk.queue.limit"])
        weight, _, limit = knobs
        self.assertEqual((weight.write(3.4), limit.write(77.3), limit.write(50.0)),
                         (3, "77 packets", "50 packets"))
        self.assertEqual((limit.low, limit.high), (6.25, 400.0))
        self.assertEqual([knob.key for knob in knobs_of(_weir.parse_toml(TUNED), ["queue.limit"])],
                         ["class.bulk.queue.limit"])

    def test_what_is_asked_for_wrongly_is_told(self):
        with self.assertRaisesRegex(ValueError, "no goal"):
            weir.tune(TUNED, [], [EVENING])
        with self.assertRaisesRegex(ValueError, "`trials` is 0; write 1"):
            weir.tune(TUNED, ["max bulk.rate"], [EVENING], trials=0)
        with self.assertRaisesRegex(ValueError, "matches `class.none.\\*`"):
            weir.tune(TUNED, ["max bulk.rate"], [EVENING], free=["class.none.*"])

    @unittest.skipUnless(importlib.util.find_spec("optuna"), "needs optuna")
    @unittest.skipUnless(importlib.util.find_spec("tomlkit"), "needs tomlkit")
    def test_a_goal_is_met_by_a_small_change(self):
        found = weir.tune(TUNED, ["call.delay.p99 < 50 ms"], [EVENING], ["bulk.rate > 1 Mbit/s"],
                          free=["class.*.weight"], trials=30, seeds=1, fresh=2)
        self.assertTrue(found.met, found.words)
        # 700 of 2000 kbit/s are 7 of 20 parts: a weight of 3 beside 5, or 1 beside 1 and less.
        values = found.pick.values
        part = values["class.call.weight"] / sum(values.values())
        self.assertTrue(0.35 <= part <= 0.5, values)
        self.assertIn("# tuned, was", found.policy)
        self.assertEqual(weir.check(found.policy), weir.check(TUNED))
        self.assertIn("bulk: ", found.words)
        self.assertTrue(found.table().to_dict()["candidate"])

    @unittest.skipUnless(importlib.util.find_spec("optuna"), "needs optuna")
    @unittest.skipUnless(importlib.util.find_spec("tomlkit"), "needs tomlkit")
    def test_a_goal_that_nothing_meets_is_told(self):
        found = weir.tune(TUNED, ["call.delay.p99 < 1 us"], [EVENING],
                          free=["class.*.weight"], trials=4, seeds=1, fresh=1)
        self.assertFalse(found.met)
        self.assertIn("BROKEN", found.words)
        self.assertIn("not kept in 1 runs", found.policy)

    @unittest.skipUnless(importlib.util.find_spec("optuna"), "needs optuna")
    @unittest.skipUnless(importlib.util.find_spec("tomlkit"), "needs tomlkit")
    def test_an_objective_is_pursued_within_conditions(self):
        found = weir.tune(TUNED, ["max bulk.rate"], [EVENING], ["call.rate > 600 kbit/s"],
                          free=["class.*.weight"], trials=30, seeds=1, fresh=2)
        self.assertTrue(found.met, found.words)
        rate = found.proof.scores[0]
        self.assertTrue(1.25e6 < rate < 1.4e6, rate)


    @unittest.skipUnless(importlib.util.find_spec("optuna"), "needs optuna")
    @unittest.skipUnless(importlib.util.find_spec("tomlkit"), "needs tomlkit")
    def test_what_it_found_is_told_drawn_and_the_same_again(self):
        def search():
            return weir.tune(TUNED, ["max bulk.rate"], [EVENING], ["call.delay.p99 < 60 ms"],
                             free=["class.*.weight"], trials=16, seeds=2, fresh=2)

        found = search()
        told = found.to_dict()
        self.assertEqual(told, search().to_dict())
        self.assertEqual(told["objectives"], ["max bulk.rate, Mbit/s"])
        numbers = [row["number"] for row in told["tried"]]
        self.assertEqual(len(set(numbers)), len(numbers))
        self.assertIn(told["pick"], numbers)
        rates = {row["number"]: row["objectives"][0] for row in told["front"]}
        self.assertEqual(max(rates.values()), max(
            row["objectives"][0] for row in told["tried"] if row["kept"]))
        if importlib.util.find_spec("matplotlib"):
            self.assertEqual(found.plot().get_ylabel(), "max bulk.rate, Mbit/s")

    def test_a_policy_that_is_refused_is_told(self):
        with self.assertRaisesRegex(ValueError, "the policy has errors"):
            weir.tune(TUNED.replace("weight = 4", "weight = 0"), ["max bulk.rate"], [EVENING])

    @unittest.skipUnless(os.environ.get("WEIR"), "the command is not built beside the module")
    def test_the_command_tunes_or_says_what_it_needs(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "policy.toml").write_text(TUNED)
            (folder / "evening.toml").write_text(EVENING)
            words = [os.environ["WEIR"], "tune", "policy.toml", "--goal", "call.delay.p99 < 50 ms",
                     "--over", "evening.toml", "--free", "class.*.weight", "--trials", "12",
                     "--seeds", "1", "--fresh", "2", "--out", "tuned.toml", "--plot", "front.svg"]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False,
                                  env={**os.environ, "WEIR_PYTHON": sys.executable})
            if importlib.util.find_spec("optuna") and importlib.util.find_spec("tomlkit"):
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("(picked)", done.stdout)
                self.assertIn("# tuned, was", (folder / "tuned.toml").read_text())
                self.assertIn("call.delay.p99", (folder / "front.svg").read_text())
            else:
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn("pip install weir-python[tune]", done.stderr)
                self.assertFalse((folder / "tuned.toml").exists())


class Ray(unittest.TestCase):
    @unittest.skipUnless(importlib.util.find_spec("ray"), "needs ray")
    def test_a_node_dies_and_the_table_is_complete_and_identical(self):
        told = subprocess.run(
            [sys.executable, HERE / "ray_nodes.py", "40"], capture_output=True, text=True, check=False
        )
        self.assertEqual(told.returncode, 0, told.stdout + told.stderr)
        found = json.loads(told.stdout.splitlines()[-1])
        self.assertEqual((found["runs"], found["identical"]), (40, True))


class Backwards:
    """An engine of a user's own, which does the last batch first."""

    workers = 1

    def run(self, runs, batches):
        for batch in reversed(batches):
            yield runs.run(batch[::-1])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


# Notes each run that is kept, and dies after two of them, in the middle of a line.
KILLED = """
import json, os, signal, sys
from pathlib import Path
import weir

folder, path = map(Path, sys.argv[1:])

class Dying:
    workers = 1

    def run(self, runs, batches):
        for number, batch in enumerate(batches):
            yield runs.run(batch)
            with open(folder / "done", "a") as noted:
                for run in batch:
                    print(json.dumps(run), file=noted)
            if number == 1:
                with open(str(path) + ".runs", "a") as journal:
                    journal.write('[{"run": 0, "val')
                os.kill(os.getpid(), signal.SIGKILL)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

given = json.loads((folder / "given.json").read_text())
weir.sweep(**given, base_dir=folder, path=path, engine=Dying())
"""


class Live(Folder):
    def test_without_a_link_there_is_an_error_of_the_system(self):
        with self.assertRaises(OSError):
            weir.connect(control=self.folder / "none")

    def test_requests_are_those_of_the_interface(self):
        requests = []

        def answer(listening):
            answers = [
                {"status": None},
                {"events": {"lost": 0, "events": [{"id": "1-1"}]}},
                {"error": "`class.voice` is no class"},
                "done",
            ]
            for text in answers[1:]:
                stream, _ = listening.accept()
                with stream, stream.makefile("rw") as lines:
                    requests.append(json.loads(lines.readline()))
                    lines.write(json.dumps(text) + "\n")
                    lines.flush()

        path = self.folder / "socket"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
            listening.listen()
            thread = threading.Thread(target=answer, args=(listening,))
            thread.start()
            link = weir.Link(control=path)
            self.assertEqual(list(link.events(after="1-0")), [{"id": "1-1"}])
            with self.assertRaisesRegex(weir.Error, "is no class"):
                link.set({"up:class.voice.rate": "1 Mbit/s"}, dry_run=True, reason="a try")
            self.assertIsNone(link.confirm())
            thread.join()
        with self.assertRaisesRegex(ValueError, "not a request"):
            link.call("nosuch")
        events, change, confirm = requests
        self.assertEqual(events, {"call": "events", "after": "1-0"})
        setting = {"direction": "up", "key": "class.voice.rate", "value": "1 Mbit/s"}
        self.assertEqual(change["settings"], [setting])
        self.assertEqual(confirm, {"call": "confirm"})


class Reserve(unittest.TestCase):
    """A sender and a receiver on both ends of a cable, each in a network namespace that is its
    thread's, which the kernel removes with the thread."""

    def test_a_flow_is_reserved_for_while_the_block_runs(self):
        self.on_a_cable(self.receive)

    def receive(self, sender):
        with weir.reserve("10.9.0.2", 5004, options={"wait": 20.0}) as reservation:
            status = reservation.status()
            self.assertEqual(status["state"], "accepted")
            self.assertEqual(status["by"], "10.9.0.1")
            self.assertEqual((status["service"], status["rate"]), ("controlled-load", 1e5))
            self.assertEqual(self.eventually(sender, "accepted"), "accepted")
        self.assertIsNone(reservation.status())
        self.assertEqual(self.eventually(sender, "waiting"), "waiting", "it was taken back")
        with self.assertRaisesRegex(weir.Error, "nobody announced the flow"):
            with weir.reserve("10.9.0.2", 5005, options={"wait": 0.3}):
                self.fail("nobody sends to this port")
        with self.assertRaisesRegex(weir.Error, "less than the 800 kbit/s"):
            with weir.reserve("10.9.0.2", 5004, "1 kbit/s", options={"wait": 20.0}):
                self.fail("more is sent")
        with self.assertRaisesRegex(OSError, "the addresses of this host are 10.9.0.2"):
            with weir.reserve("10.9.0.7", 5004):
                self.fail("it is not an address of this host")

    def test_wrong_arguments_are_told(self):
        rows = [
            (lambda: weir.reserve("here", 1), "no IP address"),
            (lambda: weir.reserve("10.9.0.2", 1, options={"style": "fx"}), "ff, se or wf"),
            (lambda: weir.reserve("10.9.0.2", 1, delay="1 ms", guaranteed="1 Mbit/s"), "not both"),
            (lambda: weir.reserve("10.9.0.2", 1, options={"wait": -1.0}), "seconds"),
            (lambda: weir.reserve("10.9.0.2", 1, options={"pace": 1}), "is not an option"),
            (lambda: weir.announce("10.9.0.2", 1, "5 mbps"), "ambiguous"),
        ]
        for call, why in rows:
            with self.assertRaisesRegex(ValueError, why):
                call()

    def eventually(self, reservation, state):
        end = time.monotonic() + 20.0
        while reservation.status()["state"] != state and time.monotonic() < end:
            time.sleep(0.02)
        return reservation.status()["state"]

    def on_a_cable(self, receive):
        libc = ctypes.CDLL(None, use_errno=True)
        if os.geteuid() != 0 or libc.unshare(0) != 0 or not shutil.which("ip"):
            self.skipTest("needs root and `ip`")
        ready, announced, done = (threading.Event() for _ in range(3))
        place, flow, wrong = [], [], []

        def ip(words):
            subprocess.run(["ip", *words.split()], check=True)

        def send():
            libc.unshare(CLONE_NEWNET)
            place.append(threading.get_native_id())
            ready.set()
            announced.wait(30)
            with weir.announce("10.9.0.2", 5004, "800 kbit/s", {"refresh": 0.5}) as own:
                flow.append(own)
                done.wait(60)

        def run():
            try:
                libc.unshare(CLONE_NEWNET)
                sending = threading.Thread(target=send)
                sending.start()
                ready.wait(30)
                ip(f"link add wire type veth peer name wire netns {place[0]}")
                ip("address add 10.9.0.2/24 dev wire")
                ip("link set wire up")
                far = f"nsenter --net=/proc/{os.getpid()}/task/{place[0]}/ns/net ip"
                for words in ("address add 10.9.0.1/24 dev wire", "link set wire up"):
                    subprocess.run([*far.split(), *words.split()], check=True)
                announced.set()
                while not flow:
                    time.sleep(0.01)
                receive(flow[0])
            except BaseException as error:
                wrong.append(error)
            finally:
                announced.set()
                done.set()

        receiving = threading.Thread(target=run)
        receiving.start()
        receiving.join()
        if wrong:
            raise wrong[0]


CLONE_NEWNET = 0x40000000


def stub():
    return ast.parse((PYTHON / "weir/_weir.pyi").read_text())


def stub_class(name):
    (found,) = [node for node in stub().body if getattr(node, "name", None) == name]
    return found.body


if __name__ == "__main__":
    # A lock that is not released ends in a trace, not in a silent hang.
    faulthandler.dump_traceback_later(300, exit=True)
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
