"""The first lines of `python run.py` and every `python -m …`, before any other import.

if __name__ == "__main__":  # before the imports, which take a while
    from reloop.conf.entry import begin

    begin()
"""

from __future__ import annotations

# The C part of the module signal: its enums take longer to import than all else here.
import _signal as signal  # type: ignore[import-not-found]
import io
import os
import sys


def begin() -> None:
    """From here on, Ctrl-C ends the process without a traceback, until a handler is set; output
    that cannot be written is dropped; characters that stdout cannot show are replaced; pictures are
    drawn in memory, whatever a notebook that started this process draws with. What lies in the
    current folder, as a statistics.py or wandb/, is not taken for a package of that name."""
    os.environ["MPLBACKEND"] = "agg"
    home = os.path.dirname(os.path.dirname(__file__))
    if sys.path and sys.path[0] not in (os.path.dirname(home), home):  # python -m puts it there
        _forget_current_folder()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    for number in range(3):
        _occupy(number)
    sys.stdout = _safe_stream(sys.stdout)
    sys.stderr = _safe_stream(sys.stderr)


def _forget_current_folder() -> None:
    try:
        if sys.path[0] == os.getcwd():
            del sys.path[0]
    except FileNotFoundError:  # it was removed
        pass


def _occupy(number: int) -> None:
    """Open a closed descriptor: the next opened file would get its number, and with it what is
    written to stdout or stderr."""
    try:
        os.fstat(number)
    except OSError:
        os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
        os.set_inheritable(number, True)


def _safe_stream(stream: object) -> io.TextIOWrapper:
    """A stream to the same descriptor whose writes never fail."""
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
    """A descriptor that drops what cannot be written."""

    def write(self, data: memoryview, /) -> int:  # type: ignore[override]
        """Write all of it, or as much as possible; wait for a non-blocking descriptor."""
        remaining = memoryview(data).cast("B")
        size = len(remaining)
        try:
            while remaining:
                written = super().write(remaining)
                if written is None:
                    from select import select  # not before an entry point's first lines

                    select([], [self], [])
                else:
                    remaining = remaining[written:]
        except OSError:  # the reader has gone, the disk is full, the terminal was closed
            pass
        return size
