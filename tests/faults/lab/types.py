"""The words of the laboratory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals
from typing import Any

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What a program may use; None and False leave it as it is. Sizes in bytes.

    `address_space`, `open_files`, `file_size`, `cpu_s`: resource limits of the process. `memory` and
    `processes`: limits of a control group of its own, where the kernel kills or refuses. `disk`: size of a
    file system of its own at `disk/` (`read_only`: one without write access), `shm`: of one over /dev/shm,
    both seen by it alone. `modes_hold`: it may not pass over the modes of files, which root could.
    """

    address_space: int | None = None
    open_files: int | None = None
    file_size: int | None = None
    cpu_s: int | None = None
    memory: int | None = None
    processes: int | None = None
    disk: int | None = None
    read_only: bool = False
    shm: int | None = None
    modes_hold: bool = False

    @property
    def needs_root(self) -> bool:
        return self.read_only or any((self.memory, self.processes, self.disk, self.shm))


@dataclass(frozen=True)
class Kill:
    """A signal from outside, as soon as the log holds `after`; it goes to the innermost child."""

    signal: Signals
    after: str


@dataclass(frozen=True)
class Case:
    """One failure and what must be said of it.

    `program`: file in `programs/` (default: the case's name with .py), put into the working folder as
    train.py (train.sh). `arguments` go to it.
    `command`: instead of running that program. `beside`: other programs that it starts, name in the folder to
    name in `programs/`. `files`: files that it finds, name to content. `warm`: it runs in an interpreter that
    has torch and the like imported. `status`: how it must end, as a shell tells it; when it ends otherwise,
    the failure was not produced. `family`: the right one; `also_right`: others that a
    careful reader of families.yaml could defend. `root`: text of the line that names the cause; "" where no
    line does, and then only how it ended tells it. `transient`: whether a plain restart helps. `fix`: what
    would fix it, for people. `wants`: module or program without which it cannot be produced.
    """

    name: str
    family: str
    root: str
    program: str = ""
    arguments: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    beside: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    warm: bool = False
    limits: Limits = field(default_factory=Limits)
    kill: Kill | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    status: int = 1
    also_right: tuple[str, ...] = ()
    transient: bool = False
    fix: str = ""
    wants: str = ""

    @property
    def script(self) -> str:
        """The file in `programs/`, "" where there is a command instead."""
        return self.program or ("" if self.command else f"{self.name}.py")

    @property
    def families(self) -> frozenset[str]:
        return frozenset((self.family, *self.also_right))


@dataclass(frozen=True)
class Produced:
    """What a case left: its log, and its end as a shell tells it (137 for SIGKILL)."""

    log: Path
    status: int

    @property
    def ended(self) -> dict[str, Any]:
        """The end as a supervisor of the training records it."""
        killed = self.status - 128 if self.status > 128 and not self._by_a_shell else None
        reason = "exited" if killed is None else "signalled"
        return {"reason": reason, "status": self.status, "signal": killed}

    @property
    def _by_a_shell(self) -> bool:
        return (self.log.parent / "train.sh").exists()
