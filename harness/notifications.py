"""Messages to a person, by apprise: an attempt failed, a run waits for an answer, a run or a sweep has ended.

In: the entries of a journal as they are recorded, and addresses (URLs of apprise) from harness.toml or
`--notify`. Out: one message per entry that matters, sent by a process of its own, which no run waits for.
An address may hold a token: it is kept in a private file outside the result folder while the run goes on,
reaches the sender through a pipe, and stands in no journal, log, report or command line of a child.
"""

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.agent.approval import open_question
from harness.atomic_write import append_lines, write_json
from harness.environment import known_secrets
from harness.errors import UserError
from harness.journal import Entry
from harness.journal.events import ActionFailed, Diagnosed, Finish, Held
from harness.outcome import Outcome
from harness.redaction import redact, redact_diff
from harness.templating import render
from harness.wording import answering, shortened, time_text
from monitors.launch import state_home
from monitors.processes import ATTEMPT_VARIABLE

PATIENCE_S = 60
LONGEST_BODY = 2000
CUT = "\n(cut here: `harness show` has the whole)"
_SENDER = "import sys; sys.path[:1] = []; from harness.notifications import send_piped; send_piped()"
_log = logging.getLogger(__name__)

Send = Callable[[Sequence[str], str, str, str], object]
"""Gets addresses, title, body, and `info`, `success`, `warning` or `failure`; returns at once."""


class MessageSender:
    """Called with the state and the entry after every record; whatever goes wrong here, the run goes on."""

    def __init__(
        self, folder: Path, identity: str, addresses: Sequence[str], send: Send | None = None
    ) -> None:
        """`identity`: of the run or the sweep in `folder`."""
        self._folder, self._identity, self._addresses = folder, identity, tuple(addresses)
        self._senders: list[subprocess.Popen[bytes]] = []
        self._send = send or self._start_sender

    def __call__(self, state: Any, entry: Entry) -> None:
        try:
            title, body, kind = message(self._folder, state, entry)
            if title and self._addresses:
                known = known_secrets(self._folder, more=self._addresses)
                mask = redact_diff if open_question([entry]) else redact  # whose lines a person judges
                body = mask(body, known)
                body = f"{shortened(body, LONGEST_BODY)}{CUT}" if len(body) > LONGEST_BODY else body
                self._send(self._addresses, redact(title, known), body, kind)
            if isinstance(entry.event, Finish) and kept(self._identity):
                _file(self._identity).unlink()
        except Exception as error:  # noqa: BLE001, a message is worth no run
            _log.warning("no notification could be sent: %s", type(error).__name__)

    def close(self) -> None:
        """Wait for the senders, but only under a supervisor: it ends what its command leaves behind, and no
        person waits there."""
        for sender in self._senders if ATTEMPT_VARIABLE in os.environ else ():
            with suppress(subprocess.TimeoutExpired):
                sender.wait(PATIENCE_S)

    def _start_sender(self, addresses: Sequence[str], title: str, body: str, kind: str) -> None:
        self._senders = [sender for sender in self._senders if sender.poll() is None]
        sender = subprocess.Popen(
            [sys.executable, "-c", _SENDER],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._senders.append(sender)
        assert sender.stdin is not None
        with sender.stdin as pipe:
            order = {"addresses": addresses, "title": title, "body": body, "kind": kind}
            pipe.write(json.dumps(order).encode(errors="replace"))


def message(folder: Path, state: Any, entry: Entry) -> tuple[str, str, str]:
    """Title, body and kind of what a person is told of an entry; an empty title for nothing. `state`: of the
    run or the sweep, after the entry."""
    event: Any = entry.event
    question = open_question([entry])
    asks_first = (
        event.kind == "run_asks" and len(state.questions[event.alike].asked) == 1
    )  # of a sweep's runs
    if isinstance(event, Finish):
        kind = "success" if event.outcome is Outcome.SUCCEEDED else "warning"
        kind = "failure" if event.outcome.exit_code else kind
    elif question is not None or (isinstance(event, Held) and event.reason) or asks_first:
        kind = "warning"
    elif isinstance(event, Diagnosed | ActionFailed):
        kind = "failure"
    else:
        return "", "", ""
    shown = {"event": event, "kind": event.kind, "question": question, "host": socket.gethostname()}
    shown["answering"] = answering
    text = render("console/notification.txt.j2", state=state, folder=folder, **shown)
    title, _, body = text.partition("\n")
    return title.strip(), body.strip(), kind


# --- addresses ----------------------------------------------------------------------------------------------


def check(addresses: Sequence[str]) -> None:
    """Raises UserError for what apprise does not know as an address."""
    if not addresses:
        return
    import apprise

    logging.getLogger("apprise").disabled = True  # it quotes addresses
    for address in addresses:
        if apprise.Apprise.instantiate(address) is None:
            shown = f"{_scheme(address)}://…" if "://" in address else "without ://"
            raise UserError(
                f"the address to notify ({shown}) is none that apprise knows; write one as "
                "https://github.com/caronc/apprise/wiki shows, such as mailto://user:password@example.org"
            )


def keep(identity: str, addresses: Sequence[str]) -> None:
    """Keep the addresses of `--notify` until the run or sweep of this id has ended, for `harness resume`."""
    try:
        if addresses:
            _file(identity).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_json(_file(identity), list(addresses), mode=0o600)
    except OSError as error:
        _log.warning("no notification will be sent: %s", error)


def kept(identity: str) -> tuple[str, ...]:
    try:
        return tuple(json.loads(_file(identity).read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):
        return ()


def _file(identity: str) -> Path:
    return state_home() / "notify" / f"{identity}.json"


def _scheme(address: str) -> str:
    return address.partition("://")[0][:20]


# --- the sender's process -----------------------------------------------------------------------------------


def send_piped() -> None:
    """Send the message on standard input to each address, once; what does not get through is logged in
    `notifications.log` beside the index of runs."""
    order = json.load(sys.stdin)
    signal.signal(signal.SIGALRM, _give_up)
    for address in order["addresses"]:
        if not _is_sent(address, order):
            line = f"{time_text(time.time())}  {_scheme(address)}: not delivered: {order['title']}\n"
            append_lines(state_home() / "notifications.log", line, 0o600)


def _is_sent(address: str, order: dict[str, str]) -> bool:
    import apprise

    logging.getLogger("apprise").disabled = True
    signal.alarm(PATIENCE_S)
    try:
        service = apprise.Apprise()
        return service.add(address) and bool(
            service.notify(
                title=order["title"], body=order["body"], notify_type=order["kind"], body_format="text"
            )
        )
    except Exception:  # noqa: BLE001, a service may raise anything; it is said that nothing was delivered
        return False
    finally:
        signal.alarm(0)


def _give_up(*_: object) -> None:
    raise TimeoutError
