"""The engine behind a swarm server: one training at a time, and the batches that it is given."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import httpx

from trainer_core.config.load import load_config, resolved_yaml
from trainer_core.config.problems import ConfigError
from trainer_core.config.schema import Ajet
from trainer_core.swarm import ledger as rows
from trainer_core.swarm.agentjet_config import as_ours, warnings_of
from trainer_core.swarm.book import Book, RefusedError, Rules
from trainer_core.swarm.ledger import Ledger
from trainer_core.swarm.states import Event, State
from trainer_core.swarm.training import Launch, Training, launch, tail_of
from trainer_core.swarm.wire import CAPABILITIES
from trainer_core.tracking.atomic import write_atomically
from trainer_core.types import TrainingError

_log = logging.getLogger(__name__)
_GRACE_S = 600.0
"""A training that is told to end finishes its phase and saves a checkpoint."""
_ANSWERS_S = 30.0
"""So long `stop_engine` waits for that, and `start_engine` for a training to be there, before they answer."""
_STOPPED = "stopped by a client"
_AGAIN_S = 1.0
_LOOKS_S = 0.05
T = TypeVar("T")
SWARM_MODE = "ajet.enable_swarm_mode=true"


class Engine:
    """Starts the training, follows what it does, hands it batches."""

    def __init__(self, book: Book, ledger: Ledger, folder: Path, changed: Callable[[], None]) -> None:
        """`folder`: for the config. `changed`: told when something may have become possible."""
        self._book, self._ledger, self._folder, self._changed = book, ledger, folder, changed
        self.training: Training | None = None
        self.run = ""
        """Name of the training's folder in the ledger."""
        self.experiment_dir = ""
        self.outcome: Event | None = None
        """How the last training ended."""
        self._following: asyncio.Task[None] | None = None
        self._sealing: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[int] | None = None
        self._delivered = self._saved = self._starts = 0
        self._is_closing = False

    @property
    def _config(self) -> Path:
        return self._folder / "config.yaml"

    # --- commands -------------------------------------------------------------------------------------

    async def configure(self, text: str) -> dict[str, Any]:
        """Take a config for the next start; says what it did.

        Raises:
            RefusedError: the engine is not offline, or the config is wrong.
        """
        self._must_be_offline("a config is taken")
        draft = self._folder / "draft" / "swarm.yaml"
        draft.parent.mkdir(parents=True, exist_ok=True)
        try:
            text, left_out = await asyncio.to_thread(as_ours, text)
            write_atomically(draft, text)
            loaded = await asyncio.to_thread(load_config, draft, now=datetime.now(), overrides=[SWARM_MODE])
        except ConfigError as error:
            told = "; ".join(str(problem).replace(str(draft), "the config") for problem in error.problems)
            raise RefusedError(400, "bad_config", told) from error
        self._must_be_offline("a config is taken")
        resolved = resolved_yaml(loaded.config)
        is_new = not self._config.is_file() or self._config.read_text(encoding="utf-8") != resolved
        write_atomically(self._config, resolved)
        self._note_place(loaded.config.ajet)
        told = "the config is taken" if is_new else "this is the config already"
        warnings = warnings_of(left_out)
        for warning in warnings:
            _log.warning(warning)
        warnings += map(str, loaded.warnings)
        return {
            "changed": is_new,
            "detail": told,
            "experiment_dir": self.experiment_dir,
            "warnings": warnings,
        }

    async def start(self) -> dict[str, Any]:
        """Start the training, unless it runs, once the one before has ended; says what it did.

        Raises:
            RefusedError: there is no config, it cannot be started, or was stopped meanwhile.
        """
        if self._book.state is not State.OFFLINE:
            pid = self.training.launch.pid if self.training is not None else None
            return {"started": False, "pid": pid, "detail": f"it runs already: {self._book.state}"}
        if self._is_closing:
            raise RefusedError(503, "server_ends", "the swarm server ends")
        if not self._config.is_file():
            raise RefusedError(400, "no_config", "there is no config yet: send one with sync_train_config")
        is_saving = self._ending is not None and not self._ending.done()
        waits = "it waits until the training before has saved its checkpoint"
        self._book.happened(Event.START, waits if is_saving else "")
        self._changed()
        self._starts += 1
        starting = asyncio.create_task(self._launch(self._starts, self._starting))
        starting.add_done_callback(lambda task: task.cancelled() or task.exception())  # the state says it too
        self._starting = starting
        if not (await asyncio.wait({starting}, timeout=_ANSWERS_S))[0]:
            return {"started": True, "pid": None, "detail": self._book.detail}
        return {"started": True, "pid": starting.result(), "detail": "the training has been started"}

    async def _launch(self, number: int, stopped: asyncio.Task[int] | None) -> int:
        try:
            if under_way := {task for task in (stopped, self._ending) if task is not None}:
                await asyncio.wait(under_way)
            self._must_be_number(number)
            self._book.told("")
            ajet = self._read_config()
            self.run = _run_of(Path(self.experiment_dir))
            console = Path(self.experiment_dir, "console.log")
            launched = await asyncio.to_thread(launch, self._folder, self._config, console, self.run)
            if number != self._starts:
                superseded = Training(launched)
                await superseded.stop(0.0)
                await superseded.close()
            self._must_be_number(number)
            self._follow(launched, ajet)
            await self._ledger.do(rows.note("training", launched.as_text()))
        except (OSError, ConfigError, sqlite3.Error) as error:
            self._must_be_number(number)
            await self._over(Event.CRASHED, f"the training could not be started: {error}")
            raise RefusedError(500, "not_started", f"the training could not be started: {error}") from error
        return launched.pid

    async def stop(self) -> None:
        """End the training, with time to save a checkpoint, and forget the episodes that run."""
        self._starts += 1  # one that is under way comes to nothing
        if self._book.state is not State.OFFLINE:
            await self._over(Event.STOP, f"{_STOPPED}; its training saves a checkpoint before it ends")
        if self._ending is not None:
            await asyncio.wait({self._ending}, timeout=_ANSWERS_S)

    def _must_be_number(self, number: int) -> None:
        if number != self._starts:
            raise RefusedError(409, "stopped", "the engine was stopped while it was started")

    async def reopen(self) -> None:
        """Find the training again that an earlier server has started.

        Raises:
            TrainingError: its config cannot be read any more.
        """
        if self._config.is_file():
            with suppress(ConfigError):
                self._note_place(self._read_config())
        noted = await self._ledger.do(rows.noted("training"))
        if noted is None:
            return
        launched = Launch(**json.loads(noted))
        try:
            ajet = self._read_config()
        except ConfigError as error:
            told = f"a training runs (process {launched.pid}), but its config cannot be read: {error}"
            raise TrainingError(f"{told}. Mend {self._config}, or end the training") from error
        self.run = launched.run
        self._book.happened(Event.START, "finding the training again")
        self._follow(launched, ajet)

    async def close(self) -> None:
        """The server ends, and the training with it."""
        self._is_closing = True
        await self.stop()
        if under_way := {task for task in (self._starting, self._ending) if task is not None}:
            await asyncio.wait(under_way)

    # --- what the training does -----------------------------------------------------------------------

    def _follow(self, launched: Launch, ajet: Ajet) -> None:
        self._book.rules = Rules(
            ajet.swarm_mode_sample_collection_method,
            ajet.data.train_batch_size,
            ajet.rollout.num_repeat,
            ajet.rollout.max_env_worker,
            ajet.swarm_mode_sample_collection_max_cached_episodes,
            ajet.swarm_mode_late_episodes,
        )
        self._delivered = self._saved = 0
        self.training = Training(launched)
        self._following = asyncio.create_task(self._watch(self.training))

    async def _watch(self, training: Training) -> None:
        seen = -1
        try:
            while (phase := await training.phase(seen)) is not None:
                if seen == phase["number"]:  # nothing new in half a minute, or it is ending
                    await asyncio.sleep(_LOOKS_S)
                    continue
                seen = phase["number"]
                await self._take(phase)
                self._changed()
            words, status = training.last_words(), await asyncio.to_thread(training.exit_status)
            is_done = status == 0 or (status is None and words.startswith("[ajet] done"))
            event = Event.ENDED if is_done else Event.CRASHED
            told = "the training has done all its steps" if event is Event.ENDED else "the training has died"
            detail = f"{told}: {words} (see {training.launch.console})"
            if not is_done and await self._surely(rows.leave_out(self.run, self._delivered)):
                detail += f"; the batch of step {self._delivered} has ended it twice, and is left out"
        except Exception as error:  # noqa: BLE001 - never a state that nobody leaves
            _log.exception("following the training failed")
            event, detail = Event.CRASHED, f"the server cannot follow it: {type(error).__name__}: {error}"
        self._following = None
        await self._over(event, detail)

    async def _take(self, phase: Mapping[str, Any]) -> None:
        """Follow a phase of the training."""
        name, step, book = phase["name"], phase["step"], self._book
        if phase["saved"] > self._saved:
            with suppress(sqlite3.Error):  # it takes room until the next checkpoint
                await self._ledger.do(rows.prune(self.run, self._saved, phase["saved"]))
                self._saved = phase["saved"]
        if book.state is State.WEIGHT_EXPORTING and name != "save_checkpoint":
            book.happened(Event.EXPORTED)
        if name == "save_checkpoint" and book.state is State.WEIGHT_SYNCING:
            book.happened(Event.EXPORTING)
        elif name == "collecting" and step > self._delivered:
            if await self._surely(rows.is_sealed(self.run, step)):
                await self._deliver(step)  # it has learned from this before, and was lost
                book.told(f"learning again from the batch of step {step}")
                return
            book.collect(step, await self._surely(rows.waiting(self.run)))
            book.happened(Event.COLLECTING)
        elif name != "collecting":
            book.told(name)

    def advance(self) -> None:
        """Complete the batch if it is enough, and hand it over when nothing keeps it any more."""
        book = self._book
        if book.state is State.ROLLING and book.is_enough():
            book.happened(Event.ENOUGH)
            if book.rules.late == "refuse":
                for claimed in [one for one in book.claims.values() if one.ending is None]:
                    book.abort(claimed, "late")
        if book.state is not State.ROLLING_POST or self._sealing is not None:
            return
        if awaited := book.awaited():
            waits = f"the batch is complete, and waits for {len(awaited)} episodes that run"
            if waits != book.detail:
                book.told(waits)
        else:
            self._sealing = asyncio.create_task(self._seal())

    async def _seal(self) -> None:
        book, step, names = self._book, self._book.step, self._book.uuids()
        try:
            await self._surely(rows.seal(self.run, step, names))
            book.sealed()
            book.happened(Event.DRAINED)
            await self._deliver(step)
        finally:
            self._sealing = None
        self._changed()

    async def _surely(self, work: rows.Work[T]) -> T:
        """What the ledger does, as soon as the disk lets it."""
        while True:
            try:
                return await self._ledger.do(work)
            except sqlite3.Error as error:
                self._book.told(f"the records cannot be written or read, which is tried again: {error}")
                self._changed()
                await asyncio.sleep(_AGAIN_S)

    async def _deliver(self, step: int) -> None:
        """Hand a batch over, unless the training is dead, which is noticed elsewhere."""
        self._delivered = step
        where = {"ledger": str(self._ledger.path.absolute()), "run": self.run, "step": step}
        while self.training is not None:
            with suppress(httpx.HTTPError):
                await self.ask("batch", where)
                return
            if self.training is None or not self.training.launch.is_alive:
                return
            await asyncio.sleep(_LOOKS_S)

    async def _over(self, event: Event, detail: str) -> None:
        """There is no training any more, or soon."""
        for task in (self._following, self._sealing):
            if task is not None:
                task.cancel()
        self._following = self._sealing = None
        training, self.training, self.outcome = self.training, None, event
        self._book.happened(event, detail)
        self._changed()
        self._ending = asyncio.create_task(self._end(training, self._ending))
        if event is not Event.STOP:
            await self._ending

    async def _end(self, training: Training | None, before: asyncio.Task[None] | None) -> None:
        try:
            if before is not None:
                await before
            if training is not None:
                await training.stop(_GRACE_S)
                await training.close()
            with suppress(sqlite3.Error):
                await self._ledger.do(rows.note("training", None))
        finally:
            if self._book.state is State.OFFLINE and self._book.detail.startswith(_STOPPED):
                self._book.told(_STOPPED)
                self._changed()

    # --- what others ask ------------------------------------------------------------------------------

    async def ask(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        """What the training answers.

        Raises:
            httpx.HTTPError: it does not, or there is none.
        """
        if self.training is None:
            raise httpx.ConnectError("there is no training")
        return await self.training.ask(path, body)

    def status(self) -> dict[str, Any]:
        """The answer to `/get_engine_status`."""
        book, detail = self._book, self._book.detail
        if book.state is State.BOOTING and not detail and self.training is not None:
            detail = self.training.last_words()
        return {
            "engine_status": book.state,
            "engine_status_detail": detail,
            "global_step": max(0, book.step - 1),
            "number": book.number,
            "version": 1,
            "capabilities": CAPABILITIES,
            "pid": os.getpid(),
        }

    def tail(self, lines: int) -> list[str]:
        """The end of what the training printed, also when it is over."""
        return tail_of(Path(self.experiment_dir, "console.log"), lines)

    def _must_be_offline(self, what: str) -> None:
        if self._book.state is not State.OFFLINE:
            message = f"{what} only while the engine is offline; it is {self._book.state}. Call stop_engine"
            raise RefusedError(400, "not_offline", message)

    def _note_place(self, ajet: Ajet) -> None:
        self.experiment_dir = str(Path(ajet.experiment_dir).absolute())

    def _read_config(self) -> Ajet:
        return load_config(self._config, now=datetime.now()).config.ajet


def _run_of(folder: Path) -> str:
    """The name of a training's folder in the ledger; it goes with the folder."""
    path = folder / "swarm_run"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, uuid.uuid4().hex)
    return path.read_text(encoding="utf-8").strip()
