"""kills.py WEIR SCENARIO [KILLS]: sweeps that are killed at random lose no run and do none twice.

Each of several kinds of sweep is begun, killed after a random time, and begun again, until it is
complete: by the command's threads, by processes of Python and by Ray, of which single workers are killed,
too, and with a disk that has no room (as root, on a file system of its own of 16 KiB). In the end the table has to
be that of a sweep that nobody disturbed, to the byte, and each run has to be done once: what the journal
has when a sweep goes on is counted.
"""

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

POINTS, REPLICATIONS = 10, 40
ENGINE = """
import json, sys
import weir
given = json.load(sys.stdin)
weir.sweep(**given, engine=sys.argv[2], workers=2, path=sys.argv[1], progress=False)
"""


def main():
    weir, scenario = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    kills = int(sys.argv[3]) if len(sys.argv) > 3 else 50
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(weir, scenario, Path(name), draw)
        whole = bench.undisturbed()
        ray = kills // 5 if importlib.util.find_spec("ray") else 0
        rest = kills - ray
        met = bench.killed("the command", bench.command, rest // 2, whole, workers=False)
        met &= bench.killed("processes", bench.processes, rest - rest // 2, whole, workers=True)
        if ray:
            met &= bench.killed("Ray", bench.ray, ray, whole, workers=True)
        else:
            print("Ray: not tried, for it is not installed")
        met &= bench.full(whole)
    sys.exit(0 if met else 1)


class Bench:
    def __init__(self, weir, scenario, folder, draw):
        self.weir, self.folder, self.draw = weir, folder, draw
        rates = [f"{9.5 + 0.05 * point:.2f} Mbit/s" for point in range(POINTS)]
        metrics = ["voice.delay.p99", "rest.rate"]
        self.file = folder / "sweep.toml"
        self.file.write_text(f'scenario = "{scenario}"\nreplications = {REPLICATIONS}\n'
                             f"metrics = {json.dumps(metrics)}\n[grid]\n"
                             f'"policy.link.rate" = {json.dumps(rates)}\n')
        self.given = {"scenario": scenario.read_text(), "grid": {"policy.link.rate": rates},
                      "replications": REPLICATIONS, "metrics": metrics, "base_dir": str(scenario.parent)}

    def command(self, out):
        words = [self.weir, "sweep", self.file, "--out", out, "--threads", "2"]
        return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def processes(self, out, engine="processes"):
        given = self.folder / "given.json"
        given.write_text(json.dumps(self.given))
        environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
        with open(given) as spec, open(self.folder / "told", "w") as told:
            return subprocess.Popen([sys.executable, "-c", ENGINE, out, engine], stdin=spec,
                                    stdout=told, stderr=told, env=environment)

    def ray(self, out):
        """Begins a sweep on a cluster of its own, and waits until that has started."""
        before = journal(out)
        child = self.processes(out, "ray")
        while child.poll() is None and len(journal(out)) <= len(before):
            time.sleep(0.05)
        return child

    def undisturbed(self):
        """The table, and how long it takes."""
        begun = time.monotonic()
        out = self.folder / "whole.parquet"
        child = self.command(out)
        if child.wait() != 0:
            sys.exit(f"kills: {child.stderr.read().decode()}")
        self.seconds = time.monotonic() - begun
        return out.read_bytes()

    def killed(self, what, start, kills, whole, workers):
        """Kills a sweep at random instants, so often; and begins a further one where it is complete."""
        done, sweeps, doubled, wrong = 0, 0, 0, 0
        while done < kills:
            sweeps += 1
            out = self.folder / f"{what.replace(' ', '-')}-{sweeps}.parquet"
            seen = set()
            while True:
                child = start(out)
                end = time.monotonic() + self.draw.uniform(0.02, 0.6) * self.seconds
                while child.poll() is None and time.monotonic() < end:
                    time.sleep(0.002)
                if child.poll() == 0:
                    break
                is_killed = child.poll() is None and done < kills
                if is_killed:
                    kill(child, workers and self.draw.random() < 0.5)
                    done += 1
                child.wait()
                if child.returncode == 0:
                    break
                if not is_killed:
                    self.give_up(what, child)
                now = journal(out)
                doubled += len(now) - len(set(now))
                wrong += len(seen - set(now))
                seen = set(now)
            wrong += out.read_bytes() != whole
        print(f"{what}: {done} kills in {sweeps} sweeps of {POINTS * REPLICATIONS} runs; {doubled} runs "
              f"done twice, {wrong} lost or tables that differ, expected 0: "
              f"{'holds' if doubled + wrong == 0 else 'MISSED'}", flush=True)
        return doubled + wrong == 0

    def give_up(self, what, child):
        """Ends all with what a sweep said that nobody killed."""
        told = child.stderr.read().decode() if child.stderr else (self.folder / "told").read_text()
        sys.exit(f"{what}: a sweep that was not killed ended with {child.returncode}: {told}")

    def full(self, whole):
        """Sweeps onto a disk that is full; then it has room, and the same command goes on."""
        disk = self.folder / "disk"
        disk.mkdir()
        mounted = os.geteuid() == 0 and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", disk], check=False).returncode == 0
        if not mounted:
            print("a full disk: not tried, for it needs root")
            return True
        try:
            out = disk / "table.parquet"
            child = self.command(out)
            refused = child.wait() == 2 and b"space" in child.stderr.read()
            kept = len(journal(out))
            subprocess.run(["mount", "-o", "remount,size=4m", disk], check=True)
            child = self.command(out)
            met = child.wait() == 0 and refused and kept > 0 and out.read_bytes() == whole
        finally:
            subprocess.run(["umount", disk], check=True)
        print(f"a full disk: refused with a reason, {kept} runs kept, then complete and equal: "
              f"{'holds' if met else 'MISSED'}", flush=True)
        return met


def journal(out):
    """The runs that the journal has; a line that is torn has none."""
    runs = []
    path = Path(f"{out}.runs")
    for line in path.read_text().splitlines()[1:] if path.exists() else []:
        try:
            runs += [row["run"] for row in json.loads(line)["runs"]]
        except json.JSONDecodeError:
            pass
    return runs


def kill(child, worker):
    """Kills the driver with all that it started, or one of its workers."""
    started = descendants(child.pid)
    names = {process: name_of(process) for process in started}
    # Ray's workers have such names, and the others of its processes are no workers.
    workers = [process for process in started if names[process].startswith("ray::")] or started[-1:]
    for victim in workers[-1:] if worker and workers else [child.pid, *started]:
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            pass


def name_of(process):
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""


def descendants(process):
    """The processes that a process started, and those that they did."""
    found = []
    try:
        own = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        own = []
    for child in map(int, own):
        found += [child, *descendants(child)]
    return found


if __name__ == "__main__":
    main()
