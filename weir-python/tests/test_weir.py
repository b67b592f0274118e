"""The module `weir` as a user of Python sees it. Needs only the standard library.

`cargo test -p weir-python` runs it against the module that it built; by hand, with `weir` to be
found by `import`: python3 test_weir.py
"""

import ast
import ctypes
import faulthandler
import inspect
import os
import shutil
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

HERE = Path(__file__).resolve().parent
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
        public = set(weir.__all__)
        self.assertEqual(public, {node.name for node in stubs} | {"Error"})
        for node in stubs:
            parameters = inspect.signature(getattr(weir, node.name)).parameters.values()
            names = [parameter.name for parameter in parameters]
            self.assertEqual(names, [argument.arg for argument in node.args.args], node.name)
            defaults = [each.default for each in parameters if each.default is not each.empty]
            written = [ast.literal_eval(default) for default in node.args.defaults]
            self.assertEqual(defaults, written, node.name)

    def test_everything_is_documented(self):
        for name in ("check", "simulate", "replay", "schedulers", "droppers", "reserve", "announce", "Error"):
            self.assertTrue(getattr(weir, name).__doc__, name)
        self.assertTrue(weir.__doc__)


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
    return ast.parse((HERE.parent / "weir.pyi").read_text())


def stub_class(name):
    (found,) = [node for node in stub().body if getattr(node, "name", None) == name]
    return found.body


if __name__ == "__main__":
    # A lock that is not released ends in a trace, not in a silent hang.
    faulthandler.dump_traceback_later(300, exit=True)
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
