"""measure.py WEIR [CLASSES]: from a key to the screen of `weir top`, on a link of so many classes each way.

Starts a link of 2 x 5000 classes in a private network, runs `weir top` in a terminal of 160 x 50, and
types filters: each asks the link for other classes. Prints the median and the worst time, in ms, from
a key to the last byte of the screen that shows them, of 40 keys, and the same of keys that only move.
Exits 1 if the median of either exceeds the goal of 50 ms. Needs root.
"""

import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time

GOAL_MS = 50.0
KEYS = 40
# A screen is complete when nothing comes for so long; the next look at the link is far away.
QUIET = 0.3
PREFIX = f"top{os.getpid()}"


def policy(classes, key):
    lines = ["[link]", 'rate = "10 Gbit/s"', 'scheduler = "htb"', 'packets_max = "600000 packets"']
    for number in range(classes):
        address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        lines += [f"[class.c{number}]", 'rate = "150 kbit/s"', 'ceil = "25 Mbit/s"',
                  f'match = {{ {key} = "{address}" }}']
    return "\n".join(lines + ["[class.rest]", 'rate = "1 Mbit/s"', "default = true", ""])


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


class Link:
    def __init__(self, weir, classes):
        self.weir, self.process = weir, None
        self.folder = tempfile.TemporaryDirectory()
        self.socket = f"{self.folder.name}/sock"
        texts = {"up.toml": policy(classes, "src"), "down.toml": policy(classes, "dst")}
        texts["deployment.toml"] = (
            f"[deployment]\ncontrol = '{self.socket}'\nports = {{ l = 'l0', r = 'r0' }}\n"
            "[direction.up]\nfrom = 'l'\nto = 'r'\npolicy = 'up.toml'\n"
            "[direction.down]\nfrom = 'r'\nto = 'l'\npolicy = 'down.toml'\n")
        for name, text in texts.items():
            with open(f"{self.folder.name}/{name}", "w", encoding="utf-8") as file:
                file.write(text)

    def begin(self):
        run("ip", "netns", "add", PREFIX)
        for one, other in [("l0", "l1"), ("r0", "r1")]:
            run("ip", "-n", PREFIX, "link", "add", one, "type", "veth", "peer", "name", other)
            for end in [one, other]:
                run("ip", "-n", PREFIX, "link", "set", end, "up")
        words = ["ip", "netns", "exec", PREFIX, self.weir, "up",
                 f"{self.folder.name}/deployment.toml"]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        while subprocess.run([self.weir, "status", "--control", self.socket, "--limit", "1"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            if self.process.poll() is not None:
                sys.exit("weir up ended; its message is above")
            time.sleep(0.5)

    def end(self):
        if self.process:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()
        subprocess.run(["ip", "netns", "delete", PREFIX], check=False)
        self.folder.cleanup()


class Screen:
    def __init__(self, link):
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.environ["TERM"] = "xterm-256color"
            os.execv(link.weir, [link.weir, "top", "--control", link.socket, "--interval", "1h"])
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        os.kill(self.child, signal.SIGWINCH)

    def settle(self):
        """Returns when the last byte came, before nothing came for a while; and all bytes."""
        last, shown = None, b""
        while select.select([self.terminal], [], [], QUIET)[0]:
            shown += os.read(self.terminal, 1 << 16)
            last = time.perf_counter()
        return last, shown

    def press(self, keys):
        """Returns the time from a key to its screen, in ms."""
        begun = time.perf_counter()
        os.write(self.terminal, keys)
        last, shown = self.settle()
        if not shown:
            sys.exit(f"nothing changes on the screen for {keys!r}")
        return 1e3 * (last - begun)

    def end(self):
        os.write(self.terminal, b"\x03")
        os.waitpid(self.child, 0)


def main():
    weir, classes = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5000
    link = Link(weir, classes)
    try:
        link.begin()
        screen = Screen(link)
        time.sleep(2)
        screen.settle()
        # Moves first: they only draw.
        moves = [screen.press(b"jk"[at % 2 : at % 2 + 1]) for at in range(KEYS)]
        screen.press(b"/")
        asked = []
        for at in range(KEYS):
            # A letter narrows the classes, and a backspace widens them again.
            asked.append(screen.press(b"c%d" % (at % 9 + 1) if at % 2 == 0 else b"\x7f\x7f"))
        screen.press(b"\x1b")
        screen.end()
    finally:
        link.end()
    holds = True
    for name, times in [("other classes", asked), ("a move", moves)]:
        median = statistics.median(times)
        print(f"2 x {classes} classes, {name}: median {median:.1f} ms, worst {max(times):.1f} ms "
              f"of {len(times)} keys")
        holds &= median <= GOAL_MS
    print(f"goal: {GOAL_MS:.0f} ms")
    sys.exit(0 if holds else 1)


main()
