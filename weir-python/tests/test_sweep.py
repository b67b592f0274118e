"""Sweeps, by every engine, and what is left of them when they are killed."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor

import weir
from weir import _engines, _weir

from common import HERE, POLICY, SCENARIO, Folder, needs


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

    def test_a_worker_that_dies_is_replaced(self):
        path = self.folder / "table.parquet"
        done = self.sweep(path=path, engine=Dying(self.folder), workers=2)
        deaths = [note.name for note in self.folder.glob("death-*")]
        self.assertEqual((len(done), sorted(deaths)), (12, ["death-0", "death-1", "death-2"]))
        self.sweep(path=self.folder / "whole.parquet")
        self.assertEqual(path.read_bytes(), (self.folder / "whole.parquet").read_bytes())

    def test_workers_end_with_a_driver_that_is_killed(self):
        self.write("home.toml", POLICY)
        given = {"scenario": SCENARIO % "100000 s", "replications": 4, "metrics": ["all.rate"],
                 "base_dir": str(self.folder)}
        program = self.write("program.py", ORPHANS % json.dumps(given))
        driver = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True)
        workers = [int(word) for word in driver.stdout.readline().split()]
        driver.kill()
        driver.communicate()
        self.assertEqual(len(workers), 2)
        end = time.monotonic() + 60
        while any(map(runs, workers)) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertFalse([worker for worker in workers if runs(worker)])

    def test_a_sweep_that_is_too_large_is_refused_before_its_scenario_is_read(self):
        grid = {"duration": ["1 s"] * 1001, "seed ": [1] * 1001}
        rows = [({"grid": grid}, "has 1002001 points, and 1000000 are the most; give fewer values"),
                ({"replications": 2**63}, "has 9223372036854775808 runs, .* 10000000 are the most"),
                ({"latin": {"duration": ["1 s", "2 s"]}, "points": 2**32}, "is not in 1 to 1000000")]
        for given, why in rows:
            with self.assertRaisesRegex(weir.Error, why):
                weir.sweep("[", metrics=["all.rate"], progress=False, **given)

    def test_workers_that_die_again_and_again_end_the_sweep(self):
        with self.assertRaises(BrokenExecutor):
            self.sweep(engine=Mortal(), replications=1)

    def test_ctrl_c_keeps_what_is_done(self):
        path = self.folder / "table.parquet"
        journal = self.folder / "table.parquet.runs"
        pressed = []

        def press():
            while not journal.exists():
                time.sleep(0.05)
            time.sleep(1)
            pressed.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=press, daemon=True)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            self.sweep(path=path, duration="100000 s", workers=2)
        thread.join()
        self.assertLess(time.monotonic() - pressed[0], 30)
        self.assertFalse(path.exists())
        self.assertTrue(journal.exists())

    def test_what_another_version_did_is_refused(self):
        self.write("home.toml", POLICY)
        design = {"method": "grid", "axes": [], "points": 0, "seed": 0}
        spec = {"scenario": SCENARIO % "1 s", "design": design, "replications": 2,
                "metrics": ["all.rate"], "seed": 1}
        runs = _weir.SweepRuns(json.dumps(spec), self.folder)
        # As a task of Ray does it, on a node that has only the specification.
        identity, done = _engines._task(runs.spec(), [1])
        self.assertEqual(json.loads(done)[0]["run"], 1)
        self.assertEqual(identity, _engines.identity_of(runs))
        _engines.refuse_others(identity, _engines.identity_of(runs))
        other = _weir.SweepRuns(json.dumps({**spec, "seed": 2}), self.folder)
        with self.assertRaisesRegex(weir.Error, "another version of Weir"):
            _engines.refuse_others(identity, _engines.identity_of(other))

    def test_wrong_sweeps_are_refused(self):
        with self.assertRaisesRegex(weir.Error, "no class `nosuch`"):
            self.sweep(metrics=["nosuch.rate"])
        with self.assertRaisesRegex(ValueError, "nan is no value of a key"):
            weir.sweep(SCENARIO % "1 s", {"policy.link.rate": [float("nan")]}, metrics="all.rate")
        with self.assertRaisesRegex(weir.Error, "`nosuch` is no metric|no metric"):
            self.sweep(metrics="nosuch")
        with self.assertRaisesRegex(ValueError, "one of grid, random and latin"):
            self.sweep(random={"duration": ["1 s", "2 s"]}, points=2)
        with self.assertRaisesRegex(ValueError, "is not local, processes or ray"):
            self.sweep(engine="cloud")
        self.write("table.parquet", "mine")
        with self.assertRaisesRegex(OSError, "of another sweep"):
            self.sweep(path=self.folder / "table.parquet")

    def test_jupyter_shows_means_and_intervals(self):
        done = self.sweep()
        for head in ("± all.rate", "all.rate to first", "± all.rate to first"):
            self.assertIn(f"<th>{head}</th>", done._repr_html_())
        second = done.summary["points"][1]["results"][0]
        self.assertIn(f"<td>{second['to_first']:.6g}</td>", done._repr_html_())
        self.assertEqual(len(done.summary["points"]), 4)

    @needs("matplotlib")
    def test_a_plot_has_one_unit_or_labels(self):
        import matplotlib

        matplotlib.use("Agg")
        self.write("home.toml", POLICY)

        def drawn(grid):
            done = weir.sweep(SCENARIO % "1 s", grid, metrics=["all.rate"], base_dir=self.folder)
            axes = done.plot()
            return list(axes.lines[0].get_xdata()), axes.get_xlabel()

        rates = ["900 kbit/s", "1 Mbit/s", "2Mbit/s"]
        self.assertEqual(drawn({"policy.link.rate": rates}),
                         ([900, 1000, 2000], "policy.link.rate, kbit/s"))
        sizes = ["100 B", "1 KB"]
        self.assertEqual(drawn({"source.arrivals.size": sizes}),
                         ([100, 1000], "source.arrivals.size, B"))
        self.assertEqual(drawn({"policy.class.all.queue.limit": ["5 packets", "10 KB"]}),
                         (["5 packets", "10 KB"], "policy.class.all.queue.limit"))

    @needs("pyarrow")
    def test_pyarrow_reads_the_file_and_its_provenance(self):
        import pyarrow.parquet

        path = self.folder / "table.parquet"
        done = self.sweep(path=path)
        table = pyarrow.parquet.read_table(path)
        self.assertEqual(table.to_pydict(), done.rows.to_dict())
        metadata = table.schema.metadata
        for key in (b"weir.version", b"weir.commit", b"weir.seed", b"weir.scenario", b"weir.spec"):
            self.assertTrue(metadata[key], key)


class Ray(unittest.TestCase):
    @needs("ray")
    def test_where_no_cluster_is_it_says_so_at_once(self):
        begun = time.monotonic()
        for address in ("127.0.0.1:9", "ray://127.0.0.1:9", "127.0.0.1:99999"):
            with self.assertRaisesRegex(ConnectionError, "no cluster of Ray listens at"):
                weir.RayEngine(address)
        self.assertLess(time.monotonic() - begun, 30, "importing Ray takes some")

    @needs("ray")
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


class Mortal(weir.LocalEngine):
    """Pools whose workers die at once."""

    def __init__(self):
        super().__init__(1, processes=True, retries=2)

    def _begin(self, runs):
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(1, context, os._exit, (1,))


class Dying(weir.LocalEngine):
    """Processes of which three die when they have done a batch and before they say what came."""

    def __init__(self, folder):
        super().__init__(2, processes=True)
        self.folder = folder

    def _begin(self, runs):
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.workers, context, begin_to_die, (runs.spec(), self.folder))


def begin_to_die(spec, folder):
    """Makes a worker that dies after its first batch, unless three others did."""
    _engines._begin(spec)
    work = _engines._work

    def die(batch):
        done = work(batch)
        for number in range(3):
            try:
                (folder / f"death-{number}").touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    # Where the pool looks up what it was handed.
    _engines._work = die


def runs(process):
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


ORPHANS = """
import multiprocessing, threading, time, weir

def tell():
    while len(multiprocessing.active_children()) < 2:
        time.sleep(0.05)
    time.sleep(1)
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)

if __name__ == "__main__":
    threading.Thread(target=tell, daemon=True).start()
    weir.sweep(**%s, engine="processes", workers=2, progress=False)
"""
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


if __name__ == "__main__":
    unittest.main()
