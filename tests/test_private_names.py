"""Private names of CPython and openml-python still are what the suite takes them for; PyTorch's and
Triton's have such tests in tests/models. A test that fails names one."""

import signal
from importlib import import_module
from pathlib import Path

from looplab.openml_eval import fetch


def test_cpython_signal() -> None:
    """What it sets, the public module sees."""
    private = import_module("_signal")
    before = signal.getsignal(signal.SIGINT)
    try:
        private.signal(private.SIGINT, private.SIG_DFL)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL
        private.signal(private.SIGINT, private.default_int_handler)
        assert private.getsignal(private.SIGINT) == signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_openml_api_calls_requests_and_config_root_cache_directory(tmp_path: Path) -> None:
    requests = import_module("requests")
    request = requests.Session.request
    with fetch._client(str(tmp_path)) as openml:
        assert openml._api_calls.requests is requests
        assert requests.Session.request is not request
        assert openml.config.get_cache_directory().startswith(str(tmp_path))
