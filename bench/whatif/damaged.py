"""damaged.py WEIR FOLDER...: whether damaged captures make `weir infer` panic or hang.

Tries each capture of the folders as it is, and 1000 copies with bytes changed, cut out, repeated or
missing at the end. Each has to end in time with a result (0), a damage that it names (1), or a refusal
(2). Prints how many ended how; exits 1 if one did otherwise.
"""

import collections
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

MUTANTS = 1000
# Far above what any of them takes; a hang does not end.
SECONDS = 120
KINDS = (".pcap", ".pcapng", ".pcap.gz", ".pcapng.gz", ".pcap.zst", ".rec")


def mutated(data, chance):
    """Returns the bytes with one to eight changes."""
    data = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        if not data:
            break
        at = chance.randrange(len(data))
        kind = chance.randrange(5)
        if kind == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[at:at + 4] = chance.randbytes(4)
        elif kind == 2:
            del data[at:at + chance.randint(1, 200)]
        elif kind == 3:
            data[at:at] = data[at:at + chance.randint(1, 2000)]
        else:
            del data[at:]
    return bytes(data)


def outcome(weir, path, folder):
    """Returns how the command ended, and its last words."""
    words = [weir, "infer", path, "-o", os.path.join(folder, "found.toml")]
    try:
        ran = subprocess.run(words, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "hangs", ""
    said = ran.stderr.decode(errors="replace").strip()
    if ran.returncode in (0, 1, 2) and "panicked" not in said:
        return f"exit {ran.returncode}", said
    return f"exit {ran.returncode}, which none should", said


def main():
    weir = os.path.abspath(sys.argv[1])
    captures = sorted(path for folder in sys.argv[2:] for path in Path(folder).iterdir()
                      if path.name.endswith(KINDS))
    wrong = 0
    chance = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="weir-") as folder:
        for path in captures:
            ended, said = outcome(weir, str(path), folder)
            wrong += "should" in ended or ended == "hangs"
            print(f"{path.name:<40}{ended}  {said}")
        ends = collections.Counter()
        held = [path.read_bytes() for path in captures]
        own = os.path.join(folder, "mutant")
        for number in range(MUTANTS):
            data = mutated(chance.choice(held), chance)
            Path(own).write_bytes(data)
            ended, said = outcome(weir, own, folder)
            ends[ended] += 1
            if "should" in ended or ended == "hangs":
                wrong += 1
                print(f"mutant {number}: {ended}: {said}")
    for ended, count in sorted(ends.items()):
        print(f"{count:>6} of {MUTANTS} mutated captures: {ended}")
    print(f"panics and hangs: {wrong}, goal 0: {'met' if wrong == 0 else 'MISSED'}")
    sys.exit(1 if wrong or not captures else 0)


if __name__ == "__main__":
    main()
