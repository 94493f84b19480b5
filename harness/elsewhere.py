"""A result folder that several machines share: which of them worked in it last, and whether it still does.

Machines are told apart by their host names. What two clocks say of each other proves nothing, so before a run
is taken over its folder is watched for a while: a supervisor writes a heartbeat every few seconds.
"""

import socket
import time
from collections.abc import Callable
from pathlib import Path

from harness import journal
from harness.errors import UserError
from harness.index import journal_of
from harness.state import AttemptState
from harness.wording import short_duration
from monitors.files import START_PATIENCE_S, AttemptFiles

WATCHED_S = 30.0
LOOK_EVERY_S = 1.0
_SIGNS = ("*.jsonl", "attempts/*/heartbeat", "*/journal.jsonl", "*/attempts/*/heartbeat")
"""What changes in the folder of a run, or of a sweep, while somebody works there."""


def check_taken_over(
    folder: Path, say: Callable[[str], object], wait: Callable[[float], object] = time.sleep
) -> None:
    """Nothing for a folder that this machine worked in last, or has a training of under whatever name; else
    watch it, and say what going on here means.

    Raises UserError where the other machine still works there, or holds its lock.
    """
    path = journal_of(folder)
    owner = journal.last_owner(path)
    if owner is None or owner.host == socket.gethostname() or (folder / "finish.flag").exists():
        return
    if any(AttemptFiles(path.parent).alive() for path in _signs(folder) if path.name == "heartbeat"):
        return
    host, watched = owner.host, short_duration(WATCHED_S)
    say(f"{folder} was run on {host} (process {owner.pid}): watching it for {watched} for a sign of life")
    before, looks = _signs(folder), round(WATCHED_S / LOOK_EVERY_S)
    for _ in range(looks):
        wait(LOOK_EVERY_S)
        if _signs(folder) != before:
            raise UserError(
                f"{host} still works in {folder}: `harness resume {folder}` there goes on with it, "
                "`harness stop` there ends it"
            )
    if journal.is_owned(path):
        raise UserError(
            f"{host} has given no sign of life for {watched}, but its lock on {path} is still held. Fix: "
            f"stop process {owner.pid} there; if that machine is gone, the file server frees it when it "
            f"starts again, and `mv {folder} {folder}.old && cp -a {folder}.old {folder}` does without it"
        )
    say(
        f"{host} has given no sign of life for {watched}: what it still trained counts as lost. It cannot be "
        "ended from here: if that machine only lost its network, end the training there"
    )


def silence(folder: Path, attempt: AttemptState | None, now: float) -> str:
    """In words, that the training's machine is another one that seems to be gone; "" for any other.
    `now`: in seconds since the epoch."""
    if attempt is None or not attempt.is_running:
        return ""
    files = AttemptFiles(folder / "attempts" / f"{attempt.number:02d}")
    info, beat = files.supervisor(), files.heartbeat()
    if info is None or beat is None or info.host == socket.gethostname() or info.host == "":
        return ""
    silent_s = now - beat.time
    if silent_s < START_PATIENCE_S:
        return ""
    return f"its machine {info.host} has given no sign of life for {short_duration(silent_s)}"


def _signs(folder: Path) -> dict[Path, bytes | int]:
    """What is in the heartbeats, and how long the journals are."""
    found: dict[Path, bytes | int] = {}
    for path in (path for pattern in _SIGNS for path in folder.glob(pattern)):
        try:
            with path.open("rb") as file:  # opening it asks the file server, looking at it may not
                found[path] = file.read() if path.name == "heartbeat" else file.seek(0, 2)
        except OSError:
            continue
    return found
