"""A process that does jobs: `python -m mercer.distributed.worker`, started by `mercer.distributed.local`.

It reads frames from standard input and writes answers to what was standard output; what a job prints goes to
standard error. It ends when its input does. Ctrl-C is for the one who started it.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
from typing import IO, Any

__all__ = ["FRAME", "read", "write"]

FRAME = struct.Struct("<cQ")  # what it is, and how many bytes follow
SHARED, JOB, ANSWER = b"S", b"J", b"A"


def read(file: IO[bytes]) -> tuple[bytes, bytes] | None:
    """The next frame: its kind and what it holds; None at the end."""
    head = file.read(FRAME.size)
    if len(head) < FRAME.size:
        return None
    kind, length = FRAME.unpack(head)
    body = file.read(length)
    return (kind, body) if len(body) == length else None


def write(file: IO[bytes], kind: bytes, body: bytes) -> None:
    file.write(FRAME.pack(kind, len(body)))
    file.write(body)
    file.flush()


def main() -> None:
    """Do jobs until there are none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    from mercer.distributed.wire import unpack
    from mercer.distributed.work import done

    shared: dict[str, Any] = {}
    while (frame := read(sys.stdin.buffer)) is not None:
        kind, body = frame
        if kind == SHARED:
            shared = unpack(body)
        else:
            function, _, job = body.partition(b"\n")
            write(answers, ANSWER, done(function.decode(), shared, job))


def __dir__() -> list[str]:
    return sorted(__all__)


if __name__ == "__main__":
    main()
