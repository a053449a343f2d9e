"""What `python run.py` and every `python -m …` do before they import anything else.

if __name__ == "__main__":  # before the imports, which take a while
    from reloop.conf.entry import begin

    begin()
"""

from __future__ import annotations

# What the module signal is made of: its enums take longer to import than all else here.
import _signal as signal  # type: ignore[import-not-found]
import io
import os
import sys


def begin() -> None:
    """From here on Ctrl-C ends the process without a traceback, until something handles it; output
    that cannot be written is dropped; characters that stdout cannot show are replaced."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    for number in range(3):
        _occupy(number)
    sys.stdout = _dropping(sys.stdout)
    sys.stderr = _dropping(sys.stderr)


def _occupy(number: int) -> None:
    """Open a descriptor that was closed: the next file opened would take its number, and be written
    to by what means stdout or stderr."""
    try:
        os.fstat(number)
    except OSError:
        os.open(os.devnull, os.O_RDWR)  # takes the least number that is free
        os.set_inheritable(number, True)


def _dropping(stream: object) -> io.TextIOWrapper:
    """A stream that writes where this one does, and never fails."""
    if not isinstance(stream, io.TextIOWrapper):  # None where it was closed
        return open(os.devnull, "w", encoding="utf-8")
    stream.flush()
    raw = _Output(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        raw if stream.write_through else io.BufferedWriter(raw),  # type: ignore[arg-type, type-var]
        encoding=stream.encoding,
        errors="replace" if stream.errors in ("strict", "surrogateescape") else stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


class _Output(io.FileIO):
    """A descriptor whose failing writes count as made."""

    def write(self, data: memoryview, /) -> int:  # type: ignore[override]
        """All of it, or what can be; a descriptor that does not block is waited for."""
        left = memoryview(data).cast("B")
        size = len(left)
        try:
            while left:
                written = super().write(left)
                if written is None:
                    from select import select  # not before an entry point's first lines

                    select([], [self], [])
                else:
                    left = left[written:]
        except OSError:  # the reader has gone, the disk is full, the terminal was closed
            pass
        return size
