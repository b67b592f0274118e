"""Engines of sweeps: who does the batches. All have the same interface, `Engine`."""

from __future__ import annotations

import importlib
import json
import os
import socket
import tempfile
import time
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from pathlib import Path
from typing import Any, Iterator, Protocol, Sequence

from ._weir import Error, SweepRuns, SweepTable


REACH_S = 5.0
"""How long a cluster may take to accept a connection."""


class Engine(Protocol):
    """Does batches of runs somewhere; a context manager, so that it can begin and end."""

    workers: int
    """How many batches it does at once."""

    def run(self, runs: SweepRuns, batches: Sequence[Sequence[int]]) -> Iterator[str]:
        """Yields what came of each batch, in any order, as `SweepRuns.run` returns it."""
        ...

    def __enter__(self) -> Any: ...

    def __exit__(self, *error: Any) -> None: ...


class LocalEngine:
    """The cores of this machine: threads, or processes if asked for."""

    def __init__(self, workers: int | None = None, processes: bool = False,
                 retries: int = 10) -> None:
        self.workers = workers or os.cpu_count() or 1
        self._processes = processes
        self._retries = retries
        self._pool: Executor | None = None

    def __enter__(self) -> LocalEngine:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def run(self, runs: SweepRuns, batches: Sequence[Sequence[int]]) -> Iterator[str]:
        """Yields what came of each batch.

        A process that dies takes its pool along: what was left gets a new pool, at most `retries`
        times while no batch is done.
        """
        left = [list(batch) for batch in reversed(batches)]
        deaths = 0
        try:
            while left:
                self._pool = self._begin(runs)
                try:
                    for done in self._hand_out(runs, left):
                        yield done
                        deaths = 0
                except BrokenExecutor:
                    deaths += 1
                    if deaths > self._retries:
                        raise
        except BaseException:
            runs.stop()
            raise

    def _begin(self, runs: SweepRuns) -> Executor:
        """Returns a new pool of workers."""
        if not self._processes:
            return ThreadPoolExecutor(self.workers)
        import multiprocessing

        # A fork would copy threads of this process in whatever state they are.
        spawn = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.workers, spawn, _begin, (runs.spec(),))

    def _hand_out(self, runs: SweepRuns, left: list[list[int]]) -> Iterator[str]:
        """Has the pool do what is left, the last first; a batch is left until it is done."""
        pool = self._pool
        work: Any = _work if self._processes else runs.run
        going: dict[Future[str], list[int]] = {}
        waiting = list(left)
        while (waiting or going) and pool is not None:
            # A few more than workers: none waits, and little is lost after Ctrl-C.
            while waiting and len(going) < 2 * self.workers:
                batch = waiting.pop()
                going[pool.submit(work, batch)] = batch
            ended, _ = wait(going, timeout=0.5, return_when=FIRST_COMPLETED)
            # First what was done: a broken pool has both.
            for future in sorted(ended, key=lambda future: future.exception() is not None):
                done = future.result()
                left.remove(going.pop(future))
                yield done


_own: SweepRuns | None = None


def _begin(spec: str) -> None:
    """Makes the runs of this worker's process, which ends with the driver, however that ends."""
    import threading

    global _own
    threading.Thread(target=_end_with_driver, daemon=True).start()
    _own = SweepRuns(spec)


def _end_with_driver() -> None:
    import multiprocessing

    driver = multiprocessing.parent_process()
    if driver is not None:
        driver.join()
        os._exit(1)


def _work(batch: list[int]) -> str:
    if _own is None:
        raise RuntimeError("the worker has not begun")
    return _own.run(batch)


class RayEngine:
    """A cluster of Ray: that at `address`, or one on this machine; needs `pip install './weir-python[ray]'`.

    Workers import `weir`, so it is installed on every node. A batch whose worker or node dies is
    done again by another one, at most `retries` times.
    """

    def __init__(self, address: str | None = None, retries: int = 10) -> None:
        try:
            # Without a type: it is there only where it was asked for.
            ray: Any = importlib.import_module("ray")
        except ImportError as error:
            raise ImportError("sweeps on Ray need it: `pip install './weir-python[ray]'` "
                              "in a checkout of Weir") from error
        self._ray = ray
        self._retries = retries
        self._own = not ray.is_initialized()
        if self._own:
            _reach(address)
            ray.init(address=address, log_to_driver=False, include_dashboard=False)
        self.workers = max(1, int(ray.cluster_resources().get("CPU", 1)))

    def __enter__(self) -> RayEngine:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._own:
            self._ray.shutdown()

    def run(self, runs: SweepRuns, batches: Sequence[Sequence[int]]) -> Iterator[str]:
        """Yields what came of each batch."""
        ray = self._ray
        # Tried again here and not by Ray, which would wait for a node that is gone.
        task = ray.remote(num_cpus=1, max_retries=0)(_task)
        spec = ray.put(runs.spec())
        own = identity_of(SweepRuns(runs.spec()))
        left = [(list(batch), 0) for batch in reversed(batches)]
        going: dict[Any, tuple[list[int], int]] = {}
        while left or going:
            # The number of nodes may change; a few more than workers keep each busy.
            workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
            while left and len(going) < 2 * workers:
                batch, tries = left.pop()
                going[task.remote(spec, batch)] = (batch, tries)
            ended, _ = ray.wait(list(going), num_returns=1, timeout=5.0)
            for reference in ended:
                batch, tries = going.pop(reference)
                try:
                    identity, done = ray.get(reference)
                except (ray.exceptions.RayTaskError, ray.exceptions.RayError) as error:
                    if isinstance(error, ray.exceptions.RayTaskError) or tries >= self._retries:
                        raise
                    time.sleep(min(0.1 * 2**tries, 5.0))
                    left.append((batch, tries + 1))
                else:
                    refuse_others(own, identity)
                    yield done


def identity_of(runs: SweepRuns) -> str:
    """Returns what tells this sweep by this version and commit of Weir from all others.

    It is the head of the sweep's journal.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sweep.parquet")
        SweepTable(runs, path).close()
        head: str = json.loads(Path(f"{path}.runs").read_text().splitlines()[0])["sweep"]
        return head


def refuse_others(own: str, identity: str) -> None:
    """Refuses what another version of Weir did: a table is of one version."""
    if identity != own:
        raise Error("a node of the cluster has another version of Weir, or one of another commit; "
                    "install the same on every node, and run the sweep again: it goes on")


def _reach(address: str | None) -> None:
    """Connects to HOST:PORT, for Ray waits for more than a minute where nothing listens."""
    host, colon, port = (address or "").replace("ray://", "").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_S).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(f"no cluster of Ray listens at {address}: {error}") from error


_known: tuple[str, SweepRuns, str] | None = None


def _task(spec: str, batch: list[int]) -> tuple[str, str]:
    """Does a batch, and says by which version; a worker keeps the runs of its last sweep."""
    global _known
    if _known is None or _known[0] != spec:
        runs = SweepRuns(spec)
        _known = (spec, runs, identity_of(runs))
    return _known[2], _known[1].run(batch)
