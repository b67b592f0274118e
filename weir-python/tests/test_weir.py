"""The module `weir` as a user of Python sees it: checks, runs, tables, objects and its stubs. Needs only
the standard library; what is tried with pyarrow, polars, pandas, mypy and pyright is skipped where
these are not installed.

`cargo test -p weir-python` runs this and the files beside it against the module that it built; by
hand, with `weir` to be found by `import`: python3 -m unittest discover -s weir-python/tests
"""

import ast
import contextlib
import doctest
import inspect
import io
import os
import re
import shutil
import signal
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
from weir import _weir
from weir._captured import scenario_of

from common import EXAMPLES, POLICY, PYTHON, SCENARIO, Folder, needs

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

def capture(frames):
    """A pcap file of `frames` frames of 60 bytes, all at one instant: 480 us each at 1 Mbit/s."""
    words = struct.pack("<6I", 0xA1B2C3D4, 0x00040002, 0, 0, 65535, 1)
    frame = struct.pack("<4I", 1_700_000_000, 0, 60, 60) + bytes(60)
    return words + frames * frame


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

    @needs("mypy")
    def test_mypy_finds_nothing(self):
        self.typed(["mypy", "--strict", "--cache-dir", os.devnull])

    @needs("pyright")
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


class Project(unittest.TestCase):
    def test_the_extras_that_messages_name_exist(self):
        project = _weir.parse_toml((PYTHON.parent / "pyproject.toml").read_text())
        extras = project["project"]["optional-dependencies"]
        named = set()
        for path in [PYTHON.parent / "README.md", *PYTHON.glob("weir/*.py")]:
            named |= set(re.findall(r"weir-python\[(\w+)\]", path.read_text()))
        self.assertEqual(named, set(extras))
        self.assertEqual(set(project["tool"]["maturin"]), {"python-source", "module-name"})


class Readme(Folder):
    @needs("polars")
    def test_its_python_runs(self):
        (code,) = re.findall(r"```python\n(.*?)```", (PYTHON.parent / "README.md").read_text(), re.S)
        # A link needs packets: test_running_link.py has one.
        code, connect, link = code.partition("link = weir.connect(")
        self.assertIn(".set(", connect + link)
        text = (EXAMPLES / "walk/evening.toml").read_text()
        self.write("mix.toml", text.replace("uplink.toml", "home.toml").replace("30 s", "1 s"))
        policy = (EXAMPLES / "walk/uplink.toml").read_text().replace("3.5 Mbit/s", "3 Mbit/s")
        self.write("home.toml", policy + '[class.none]\nrate = "500 kbit/s"\n')
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        told = io.StringIO()
        with contextlib.redirect_stdout(told), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(code, "README.md", "exec"), {})
        self.assertIn("W", told.getvalue(), "a finding, for no rule leads to the last class")
        self.assertIn("'voice': ", told.getvalue())
        self.assertIn("2 Mbit/s", told.getvalue())
        self.assertTrue((self.folder / "voice.parquet").exists())


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
        self.assertEqual(len(weir.compare(SCENARIO % "5 s", "drr", self.folder)["rows"]), 1)
        with self.assertRaisesRegex(ValueError, "no scheduler"):
            weir.compare(SCENARIO % "5 s", ["nosuch"], self.folder)
        columns = compared.table().to_dict()
        self.assertEqual((columns["scheduler"], columns["name"]), (["fifo", "drr"], ["all", "all"]))

    @needs("matplotlib")
    def test_a_comparison_is_drawn(self):
        import matplotlib

        matplotlib.use("Agg")
        self.write("home.toml", POLICY)
        for replications in (1, 2):
            compared = weir.compare(SCENARIO % "1 s", ["fifo", "drr"], self.folder,
                                    replications=replications)
            axes = compared.plot()
            self.assertEqual((axes.get_ylabel(), len(axes.patches)), ("sent, Mbit/s", 2))
            self.assertEqual(compared.plot("delay").get_ylabel(), "p99, ms")
        with self.assertRaisesRegex(ValueError, "`loss` is not drawn; there are rate, delay"):
            compared.plot("loss")

    def test_queues_of_a_hash_without_packets_are_left_out(self):
        policy = POLICY.replace("default = true", 'default = true\nhash = "srcaddr"\nqueues = 8')
        self.write("home.toml", policy)
        report = weir.simulate(SCENARIO % "1 s", self.folder)
        (one,) = report["classes"]
        self.assertRegex(one["name"], "^all-[0-7]$")

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
        # It warns of how many packets there are.
        with warnings.catch_warnings(), self.assertRaises(KeyboardInterrupt):
            warnings.simplefilter("ignore")
            weir.simulate(SCENARIO % "1000000 s", base_dir=self.folder)
        # The run would take minutes.
        self.assertLess(time.monotonic() - begun, 30)
        timer.join()


class Given(Folder):
    """Texts, files and objects are taken alike."""

    def setUp(self):
        super().setUp()
        self.policy = self.write("home.toml", POLICY)
        self.scenario = self.write("mix.toml", SCENARIO % "1 s")

    def test_a_file_is_read_with_what_lies_beside_it(self):
        report = weir.simulate(SCENARIO % "1 s", self.folder)
        self.assertEqual(report["scenario"], "scenario")
        self.assertEqual(weir.simulate(self.scenario), {**report, "scenario": "mix"})
        self.assertEqual(weir.check(self.scenario), [])
        self.write("home.toml", FAULTY)
        (found,) = weir.check(self.policy)
        self.assertEqual((found["file"], found["code"]), (str(self.policy), "W016"))
        self.assertIn("W016", [row["code"] for row in weir.check(self.scenario)])
        with self.assertRaises(FileNotFoundError):
            weir.check(self.folder / "none.toml")
        with self.assertRaisesRegex(TypeError, "a Policy or a Scenario is wanted, and not int"):
            weir.simulate(7)

    def test_objects_are_taken_as_their_texts_are(self):
        policy = weir.Policy.from_toml(POLICY)
        scenario = weir.Scenario.from_toml(SCENARIO % "1 s")
        scenario.policy = policy
        self.assertEqual(weir.check(policy), weir.check(POLICY))
        self.assertEqual((weir.check(scenario), scenario.check()), ([], []))
        self.assertEqual(weir.bounds(policy), weir.bounds(self.policy))
        self.assertTrue(weir.diff(policy, self.policy)["settings"] == [])
        self.assertEqual(weir.convert(policy, "drr")["scheduler"], "drr")
        self.assertEqual(weir.simulate(scenario)["classes"], weir.simulate(self.scenario)["classes"])
        rows = weir.compare(scenario, ["drr"])["rows"]
        self.assertEqual(rows, weir.compare(self.scenario, ["drr"])["rows"])
        capture_path = self.write("in.pcap", capture(5))
        self.assertEqual(weir.replay(policy, capture_path)["capture"]["frames"], 5)
        grid = {"policy.link.rate": ["1 Mbit/s", "2 Mbit/s"]}
        tables = [weir.sweep(given, grid, metrics=["all.rate"], progress=False).rows.to_dict()
                  for given in (scenario, self.scenario)]
        self.assertEqual(*tables)

    @needs("numpy")
    def test_numbers_of_numpy_are_values(self):
        import numpy

        scenario = weir.Scenario.from_toml(SCENARIO % "1 s")
        scenario.policy = weir.Policy.from_toml(POLICY.replace("fifo", "wf2q+"))
        grid = {"policy.class.all.weight": numpy.arange(1, 4)}
        done = weir.sweep(scenario, grid, metrics=["all.rate"], progress=False)
        self.assertEqual(done.rows.to_dict()["policy.class.all.weight"], [1, 2, 3])


class Tables(Folder):
    def report(self):
        self.write("home.toml", POLICY)
        return weir.simulate(SCENARIO % "2 s", self.folder, packets=True, series="500 ms")

    def test_packets_and_series_are_those_of_the_report(self):
        report = self.report()
        rows = report.packets.to_dict()
        (one,) = report["classes"]
        self.assertEqual(rows["verdict"].count("sent"), one["sent"]["packets"])
        # As in the Parquet file of the command.
        self.assertEqual((set(rows["link"]), set(rows["from"])), ({"link"}, {""}))
        self.assertNotIn("outlet", rows)
        self.assertEqual(len(report.packets), one["sent"]["packets"] + one["dropped"]["total"]["packets"])
        self.assertEqual(max(rows["delay_ns"]), round(one["delay_us"]["max"] * 1000))
        series = report.series.to_dict()
        sent = sum(series["sent_bps"][:4]) * 0.5 / 8
        self.assertAlmostEqual(sent, one["sent"]["bytes"], delta=0.01 * sent)
        self.assertEqual(series["start_s"][:4], [0.0, 0.5, 1.0, 1.5])

    def test_segments_are_those_of_the_flow(self):
        self.write("home.toml", POLICY)
        scenario = (SCENARIO % "2 s") + '[[source]]\nname = "file"\nkind = "tcp"\n'
        report = weir.simulate(scenario, self.folder, flow="file")
        rows = report.segments.to_dict()
        self.assertEqual(rows["flags"][:3], ["S", "S.", "."])
        again = sum(word != "" for word in rows["again"])
        (file,) = [source for source in report["sources"] if source["name"] == "file"]
        self.assertGreaterEqual(again, file["tcp"]["retransmitted"])
        self.assertAlmostEqual(sum(file["tcp"]["limited"].values()), 1, delta=0.0002)
        with self.assertRaisesRegex(ValueError, "no source; those that send TCP are file"):
            weir.simulate(scenario, self.folder, flow="other")

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

    @needs("pyarrow")
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

    @needs("polars")
    def test_polars_opens_tables(self):
        import polars

        report = self.report()
        frame = polars.DataFrame(report.packets)
        self.assertEqual(frame["class"].to_list(), report.packets.to_dict()["class"])
        self.assertEqual(polars.DataFrame(report.table())["name"].to_list(), ["all"])

    @needs("pandas")
    def test_pandas_opens_tables(self):
        import pandas

        report = self.report()
        frame = pandas.DataFrame.from_arrow(report.packets)
        self.assertEqual(list(frame["delay_ns"]), report.packets.to_dict()["delay_ns"])
        self.assertEqual(list(frame["verdict"]), report.packets.to_dict()["verdict"])


class Captures(Folder):
    """What the applications of a capture wanted, and what other policies would have done to it."""

    CAPTURE = EXAMPLES / "walk/evening.pcap.gz"

    def test_an_inference_has_tables_and_a_scenario_that_runs(self):
        output = self.folder / "evening.toml"
        found = weir.infer(self.CAPTURE, output=output, rate="20 Mbit/s")
        self.assertEqual(found["rate_bps"], 20_000_000)
        flows, exchanges = found.flows.to_dict(), found.exchanges.to_dict()
        self.assertEqual(flows["name"], [flow["name"] for flow in found["flows"]])
        self.assertEqual(flows["bytes"], [flow["bytes"][0] for flow in found["flows"]])
        self.assertEqual(sum(flows["exchanges"]), len(found.exchanges))
        self.assertEqual(set(exchanges["flow"]), {
            name for name, count in zip(flows["name"], flows["exchanges"]) if count
        })
        for model, trip in zip((flow["model"] for flow in found["flows"]), flows["round_trip_s"]):
            parts = model.get("round_trip", {}).get("parts_s", [None])
            if None not in parts:
                self.assertAlmostEqual(trip, sum(parts), places=6)
        self.assertEqual(output.read_text(), found.scenario)
        self.assertIn("evening.packets-1.pcapng", self.names())
        scenario = weir.Scenario.from_toml(output)
        scenario.duration = "3 s"
        # Sources that begin later are warned of.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = weir.simulate(scenario, self.folder)
        self.assertGreater(len(report["sources"]), 1)
        self.assertIn("<td>tcp</td>", found._repr_html_())
        hidden = weir.infer(self.CAPTURE, grouping="exact", anonymous=True)
        self.assertNotIn(flows["source"][0], hidden.flows.to_dict()["source"])

    def test_what_cannot_be_inferred_from_is_refused(self):
        with self.assertRaises(FileNotFoundError):
            weir.infer(self.folder / "none.pcap")
        with self.assertRaisesRegex(weir.Error, "text: .* is not a capture"):
            weir.infer(self.write("text", "hello"))
        with self.assertRaisesRegex(ValueError, "none of auto, exact, population"):
            weir.infer(self.CAPTURE, grouping="all")
        own = self.write("own.pcap.gz", self.CAPTURE.read_bytes())
        with self.assertRaisesRegex(weir.Error, "is an input"):
            weir.infer(own, output=own)
        cut = self.write("cut.pcap.gz", self.CAPTURE.read_bytes()[:20_000])
        with self.assertWarnsRegex(UserWarning, "cut.pcap.gz: it ends early"):
            self.assertIsNotNone(weir.infer(cut)["fault"])

    def test_forecasts_have_a_table_and_an_error_bar(self):
        was = EXAMPLES / "walk/uplink.toml"
        slow = POLICY.replace("1 Mbit/s", "5 Mbit/s")
        with self.assertRaisesRegex(weir.Error, "name the policy that was in force"):
            weir.whatif(self.CAPTURE, was)
        found = weir.whatif(self.CAPTURE, {"slow": slow, "same": was}, was, replications=1)
        self.assertEqual((found["policies"], found["replications"]), (["slow", "same"], 1))
        rows = found.rows.to_dict()
        forecasts = [row for group in found["groups"] for row in group["rows"]]
        self.assertEqual(len(found.rows), 2 * len(forecasts))
        self.assertEqual(len(found.unlike), len(found["unlike"]))
        self.assertIn("throughput", rows["measure"])
        same = [place for place, policy in enumerate(rows["policy"]) if policy == "same"]
        self.assertEqual({rows["verdict"][place] for place in same}, {"same"})
        self.assertIn("<td>throughput</td>", found._repr_html_())

    def test_a_capture_stands_for_a_scenario(self):
        capture = self.write("evening.pcap.gz", self.CAPTURE.read_bytes())
        text, below = scenario_of(capture, None, self.folder)
        self.assertIn('start_jitter = "5 ms"', text)
        self.assertEqual([path.suffix for path in Path(below).iterdir()], [".pcapng"])
        plain = self.write("mix.toml", SCENARIO % "1 s")
        self.assertEqual(scenario_of(plain, None, self.folder), (SCENARIO % "1 s", self.folder))
        promise = '[[promise]]\nthat = "all.delay.max > 1 ms"\nunder = "evening.pcap.gz"\n'
        self.write("home.toml", POLICY + promise)
        (row,) = weir.test(POLICY + promise, self.folder, runs=2)["promises"]
        self.assertEqual(row["verdict"], "kept")

    @needs("pyarrow")
    def test_pyarrow_opens_flows(self):
        import pyarrow

        found = weir.infer(self.CAPTURE)
        self.assertEqual(pyarrow.table(found.flows).num_rows, len(found["flows"]))
        self.assertEqual(pyarrow.table(found.exchanges).num_rows, len(found.exchanges))


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

    def test_values_of_a_wrong_form_are_kept_and_checked(self):
        rows = [
            ("link = 'x'", weir.Policy), ("class = 3", weir.Policy), ("class.a = 3", weir.Policy),
            ("class.a.queue = '50 packets'", weir.Policy), ("promise = 'x'", weir.Policy),
            ("promise = [3]", weir.Policy), ("class = []", weir.Policy), ("link = []", weir.Policy),
            ("source = 'x'", weir.Scenario), ("source = [3]", weir.Scenario),
            ("source = []\npolicy = 3", weir.Scenario), ("policy = { class = 3 }", weir.Scenario),
        ]
        for text, kind in rows:
            made = kind.from_toml(text)
            self.assertEqual(_weir.parse_toml(made.to_toml()), _weir.parse_toml(text), text)
            severities = [row["severity"] for row in made.check()]
            self.assertIn("error", severities, text)

    def test_objects_are_changed_and_run(self):
        scenario = weir.Scenario.from_toml((EXAMPLES / "walk/evening.toml").read_text())
        self.assertEqual(scenario.policy, "uplink.toml")
        policy = weir.Policy.from_toml(EXAMPLES / "walk/uplink.toml")
        with self.assertRaisesRegex(AttributeError, r"Class has no field `burst`; write keys\['burst'\]"):
            policy.classes["voice"].burst = "30 KB"
        self.assertEqual(policy.classes["voice"].queue.limit, "15 packets")
        policy.link.rate = "19 Mbit/s"
        scenario.policy, scenario.duration = policy, "1 s"
        self.assertEqual(scenario.simulate()["link"]["rate_bps"], 19_000_000)
        self.assertEqual(scenario.sources[0].keys["dport"], 5004)
        policy.classes["voice"].queue = weir.Queue("nosuch")
        self.assertIn("error", [row["severity"] for row in policy.check()])


def stub():
    return ast.parse((PYTHON / "weir/_weir.pyi").read_text())


def stub_class(name):
    (found,) = [node for node in stub().body if getattr(node, "name", None) == name]
    return found.body


if __name__ == "__main__":
    unittest.main()
