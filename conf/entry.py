"""The first lines of `python run.py` and every `python -m …`, before any other import.

if __name__ == "__main__":  # before the imports, which take a while
    from looplab.conf.entry import begin

    begin()
"""

# Not `signal`: a file of that name in the current folder would be imported in its place.
import _signal as signal  # type: ignore[import-not-found]
import io
import os
import sys


def begin() -> None:
    """From here on, Ctrl-C ends the process without a traceback, until a handler is set; output
    whose reader has gone is dropped; characters that stdout cannot show are replaced; pictures are
    drawn in memory, whatever a notebook that started this process draws with. What lies in the
    current folder, as a statistics.py or wandb/, is not taken for a package of that name. A Python
    that is too old, or lacks a package, is one line."""
    # First of all: the imports that follow this call are what may be missing.
    sys.excepthook = _answer_missing
    if sys.version_info < (3, 11):  # noqa: UP036 - a user's may be any
        sys.exit(_unfit("is older than 3.11"))
    os.environ["MPLBACKEND"] = "agg"
    home = os.path.dirname(os.path.dirname(__file__))
    if sys.path and sys.path[0] not in (os.path.dirname(home), home):  # python -m puts it there
        _forget_current_folder()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdout = _patient(sys.stdout)
    sys.stderr = _patient(sys.stderr)


def _answer_missing(kind, error, trace):  # type: ignore[no-untyped-def]
    """sys.excepthook: a package that is not there is one line, and all else a traceback."""
    name = (getattr(error, "name", None) or "").partition(".")[0]
    if issubclass(kind, ModuleNotFoundError) and name not in ("", "looplab"):
        print(_unfit(f"has no package {name}"), file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


def _unfit(problem: str) -> str:
    """A line on this Python, which has a problem, and on how to get to one that has none."""
    home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environment = os.path.join(home, ".venv")
    if os.path.exists(environment) and not os.path.samefile(sys.prefix, environment):
        remedy = f"source {os.path.relpath(environment)}/bin/activate"
    else:
        remedy = "make setup"
    return f"looplab: {sys.executable} {problem}; {remedy}"


def _forget_current_folder() -> None:
    try:
        if sys.path[0] == os.getcwd():
            del sys.path[0]
    except FileNotFoundError:  # it was removed
        pass


def _patient(stream: object) -> object:
    """A stream to the same descriptor that drops what nobody reads."""
    if not isinstance(stream, io.TextIOWrapper):  # a process without a console has none
        return stream
    stream.flush()
    output = _Output(stream.fileno(), "w", closefd=False)
    # A terminal of another encoding gets question marks, and the command goes on.
    errors = "replace" if stream.errors in ("strict", "surrogateescape") else stream.errors
    return io.TextIOWrapper(
        io.BufferedWriter(output),  # type: ignore[type-var]
        encoding=stream.encoding,
        errors=errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


class _Output(io.FileIO):
    def write(self, data: memoryview, /) -> int:  # type: ignore[override]
        try:
            return super().write(data)
        except BrokenPipeError:
            return len(data)
