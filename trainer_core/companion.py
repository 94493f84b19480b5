"""The programs that a config names to run beside the training."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from trainer_core.child_process import ChildProcess, answers
from trainer_core.types import TrainingError

if TYPE_CHECKING:
    from trainer_core.config.services import Companion


@contextmanager
def companions(
    programs: Sequence[Companion],
    folder: Path,
    say: Callable[[str], None] = lambda _: None,
    safe_point: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Have them run, each started when the one before is ready; one that ends is started again.

    Args:
        folder: gets what they print, in `companions/`.

    Raises:
        TrainingError: one cannot be started.
    """
    with ExitStack() as running:
        for number, program in enumerate(programs):
            key, words = f"ajet.companions[{number}]", program.command.split()
            if not words:
                raise TrainingError(f"{key}.command is empty")
            try:
                ready = re.compile(program.ready_pattern or "")
            except re.error as error:
                raise TrainingError(f"{key}.ready_pattern: {error}") from None
            program_name = Path(words[0]).name
            name, log = f"{key} ({program_name})", folder / "companions" / f"{number}-{program_name}.log"
            say(f"{name} starts")
            process = running.enter_context(ChildProcess(["sh", "-c", program.command], name, log))
            is_ready = partial(_is_ready, process, ready, program.health_url)
            process.wait_until(is_ready, program.starts_in_s, safe_point)
            process.keep(
                program.max_restarts,
                wait=partial(process.wait_until, is_ready, program.starts_in_s),
                say=lambda line: say(f"warning: {line}"),
            )
        yield


def _is_ready(process: ChildProcess, ready: re.Pattern[str], health_url: str | None) -> bool:
    has_said = process.is_running and ready.search(process.printed()) is not None
    return has_said and (health_url is None or answers(health_url))
