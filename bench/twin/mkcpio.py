"""Packs a folder into an initial RAM disk: python3 mkcpio.py FOLDER OUT (the "newc" archive, gzip)."""
import gzip
import os
import sys


def entry(name, mode, body=b"", device=(0, 0)):
    name = name.encode() + b"\0"
    entry.number += 1
    fields = [entry.number, mode, 0, 0, 1, 0, len(body), 0, 0, *device, len(name), 0]
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + name
    padded = lambda bytes: bytes + b"\0" * (-len(bytes) % 4)
    return padded(head) + padded(body)


entry.number = 0
folder, out = sys.argv[1:]
parts = []
for at, folders, files in sorted(os.walk(folder)):
    if at != folder:
        parts.append(entry(os.path.relpath(at, folder), 0o40755))
    for name in sorted(files):
        path = os.path.join(at, name)
        with open(path, "rb") as file:
            parts.append(entry(os.path.relpath(path, folder), 0o100755, file.read()))
parts.append(entry("dev", 0o40755))
parts.append(entry("dev/console", 0o20600, device=(5, 1)))
parts.append(entry("dev/null", 0o20666, device=(1, 3)))
parts.append(entry("TRAILER!!!", 0))
with gzip.GzipFile(out, "wb", compresslevel=1, mtime=0) as file:
    file.write(b"".join(parts))
