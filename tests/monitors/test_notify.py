"""A change of a file wakes its waiter once, with inotify and without."""

import asyncio
from pathlib import Path

import pytest

from monitors.notify import Notifier


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("limit_reached", [False, True])
async def test_a_change_is_announced_once(
    platform: str, limit_reached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitors.notify.POLL_S", 0.05)
    monkeypatch.setattr("monitors.notify.sys.platform", platform)
    notifier = Notifier(asyncio.get_running_loop())
    if limit_reached and platform == "linux":
        monkeypatch.setattr(notifier._libc, "inotify_add_watch", lambda *_: -1)
    log, later = tmp_path / "pane.log", tmp_path / "exit.json"
    log.write_text("")
    called: list[str] = []
    changed, created = asyncio.Event(), asyncio.Event()

    def log_changed() -> None:
        called.append("log")
        changed.set()

    notifier.ask(log, log_changed)
    ticket = notifier.ask(log, lambda: called.append("forgotten"))
    assert (ticket < 0) == (limit_reached or platform == "darwin")
    if ticket < 0:  # inotify has one ticket for both
        notifier.forget(ticket, called.clear)
    log.write_text("step 1")
    await asyncio.wait_for(changed.wait(), 20)
    log.write_text("step 1, step 2")
    notifier.ask(later, created.set)
    later.write_text("{}")
    await asyncio.wait_for(created.wait(), 20)
    assert called.count("log") == 1 and ("forgotten" not in called or ticket > 0)
