"""Requests to running links, and reservations between two hosts."""

import ctypes
import json
import os
import shutil
import socket
import subprocess
import threading
import time
import unittest

import weir

from common import Folder


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


if __name__ == "__main__":
    unittest.main()
