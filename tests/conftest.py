"""Every test runs with a home, state folder, cache folder, shell and tmux server of its own."""

import gc
import os
import signal
import ssl
import subprocess
import uuid
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

with suppress(ModuleNotFoundError):  # the environments of the stack have none
    from hypothesis import HealthCheck, settings

    settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("untimed")  # a loaded machine is no failure
os.environ.setdefault("OMP_NUM_THREADS", "1")
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # in a shell's background job; processes would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # under nohup, likewise
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


# Each HTTP client reads all certificates.
ssl.create_default_context = cache(ssl.create_default_context)  # type: ignore[assignment]
gc.disable()  # until all is imported: nearly nothing of it is garbage


def pytest_collection_finish() -> None:
    """Leave what was imported out of every later search for garbage."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mix the files, always in the same way: tests that wait then run beside tests that compute."""
    items.sort(key=lambda item: zlib.crc32(item.nodeid.partition("::")[0].encode()))


@pytest.fixture(autouse=True)
def private_surroundings(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Redirect everything that outlives a run (state, caches, tmux) into this test's own folder, and start
    panes with a plain shell: a login shell that is killed in the user's start-up files can leave locks."""
    home = tmp_path_factory.mktemp("surroundings")
    socket = f"ajet-test-{uuid.uuid4().hex[:12]}"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SHELL", "/bin/sh")
    for variable in ("ENV", "TMUX", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path_factory.getbasetemp() / "fonts"))  # found once a worker
    monkeypatch.setenv("AJET_TMUX_SOCKET", socket)
    yield home
    socket_file = Path(os.environ.get("TMUX_TMPDIR", "/tmp")) / f"tmux-{os.getuid()}" / socket
    if socket_file.exists():
        subprocess.run(["tmux", "-L", socket, "kill-server"], capture_output=True, timeout=60, check=False)
        socket_file.unlink(missing_ok=True)
