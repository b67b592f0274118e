"""A sweep on a cluster of two nodes of Ray, of which one is killed in the middle.

`python3 ray_nodes.py [RUNS]`, with `weir` to be found by `import` and Ray installed. It starts two
nodes with `ray start`, sweeps, kills every process of the second one when a quarter is done, and
compares the table with that of the local engine, to the byte. `test_weir.py` runs the short form.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Newer Rays ask for a token, and read at their import which. One of the user's is left alone.
os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))

import ray  # noqa: E402
import weir  # noqa: E402

WALK = Path(__file__).resolve().parent.parent.parent / "examples/walk"


class Node:
    """A node in processes of its own."""

    def __init__(self, folder, *options):
        # Ray's own command, of this interpreter.
        words = [sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start"]
        self._log = open(folder / f"node{len(options)}", "w")
        environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
        self._child = subprocess.Popen(
            [*words, "--block", "--num-cpus=1", "--object-store-memory=80000000", *options],
            stdout=self._log, stderr=self._log, env=environment,
        )

    def kill(self):
        """Kills it and all that it started, at once."""
        for process in [self._child.pid, *descendants(self._child.pid)]:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._child.wait()
        self._log.close()


def descendants(process):
    """The processes that a process started, and those that they did."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name may contain anything, so what follows it is counted from its end.
            rest = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(rest[1]), []).append(int(path.parent.name))
    found, left = [], [process]
    while left:
        own = parents.get(left.pop(), [])
        found += own
        left += own
    return found


def connected(address, nodes):
    """Waits until the cluster has so many nodes."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            if not ray.is_initialized():
                ray.init(address=address, log_to_driver=False)
            if sum(node["Alive"] for node in ray.nodes()) >= nodes:
                return
        except ConnectionError:
            pass
        time.sleep(0.2)
    raise TimeoutError("the nodes of Ray do not come")


class Killing(weir.RayEngine):
    """Kills a node once a quarter of the batches is done."""

    def __init__(self, address, node):
        super().__init__(address)
        self._node = node
        self.killed_after = None

    def run(self, runs, batches):
        for number, done in enumerate(super().run(runs, batches)):
            yield done
            if self.killed_after is None and number + 1 >= len(batches) / 4:
                self._node.kill()
                self.killed_after = number + 1


def main(count):
    """Sweeps, with a death in the middle; returns what happened."""
    scenario = (WALK / "evening.toml").read_text()
    options = {
        "grid": {"policy.link.rate": ["9.5 Mbit/s", "9.8 Mbit/s"]},
        "replications": count // 2,
        "metrics": ["voice.delay.p99", "web.rate", "rest.loss"],
        "base_dir": WALK,
        "progress": False,
    }
    port = 20000 + os.getpid() % 20000
    address = f"127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        head = Node(folder, "--head", f"--port={port}", "--include-dashboard=false",
                    f"--temp-dir={folder}/ray")
        second = None
        try:
            connected(address, 1)
            second = Node(folder, f"--address={address}")
            connected(address, 2)
            begun = time.monotonic()
            engine = Killing(address, second)
            done = weir.sweep(scenario, path=folder / "ray.parquet", engine=engine, **options)
            seconds = time.monotonic() - begun
        finally:
            ray.shutdown()
            for node in filter(None, (second, head)):
                node.kill()
        weir.sweep(scenario, path=folder / "local.parquet", **options)
        same = (folder / "ray.parquet").read_bytes() == (folder / "local.parquet").read_bytes()
        return {
            "runs": len(done), "killed_after_batches": engine.killed_after,
            "seconds": round(seconds, 1), "identical": same,
        }


if __name__ == "__main__":
    told = main(int(sys.argv[1]) if len(sys.argv) > 1 else 10000)
    print(json.dumps(told))
    sys.exit(0 if told["identical"] and told["killed_after_batches"] else 1)
