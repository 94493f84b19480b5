"""Folders that a command sees as they are, and whose changes by it are dropped.

In: the folders. Out: a request whose command runs so (`monitors/overlay`), where this machine can do that.
"""

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from harness.launching import LaunchRequest
from harness.repair.code_copy import CACHES
from monitors import overlay
from monitors.files import AttemptFiles

MOST_LEFT = 5


@dataclass(frozen=True)
class Apart:
    """`folders`: that of the code first. `scratch`: where what is written into them goes instead."""

    folders: tuple[Path, ...]
    scratch: Path

    def works(self) -> bool:
        """True if all of them can be seen so on this machine."""
        self.scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
        tried = [overlay.works(folder, scratch) for folder, scratch in self._places()]
        if not all(tried):
            self.remove()
        return all(tried)

    def put(self, request: LaunchRequest, files: AttemptFiles) -> LaunchRequest:
        """Have the command run apart from the folders, where that works; its own folder stays real."""
        if not self.works():
            return request
        files.dir.mkdir(parents=True, exist_ok=True)
        program: list[str] = []
        for folder, scratch in self._places():
            kept = [files.dir.resolve()] if files.dir.resolve().is_relative_to(folder) else []
            program += overlay.program(folder, scratch, kept)
        contain = request.contain
        return replace(
            request, contain=lambda text: f"exec {shlex.join(program)} bash -c {shlex.quote(contain(text))}"
        )

    def left(self, began_at: float, result_dir: Path) -> tuple[str, ...]:
        """Some of the files that were written into the code's folder since then; () where it ran apart."""
        if self.scratch.exists():
            return ()
        codebase, found = self.folders[0], list[str]()
        for parent, folders, names in os.walk(codebase):
            folders[:] = [each for each in folders if each not in CACHES and Path(parent, each) != result_dir]
            files = (path for name in names if (path := Path(parent, name)).is_file())
            found += [str(path.relative_to(codebase)) for path in files if path.stat().st_mtime >= began_at]
            if len(found) >= MOST_LEFT:
                break
        return tuple(found[:MOST_LEFT])

    def remove(self) -> None:
        """Remove what was written."""
        for _, scratch in self._places():
            overlay.remove(scratch)
        overlay.remove(self.scratch)

    def _places(self) -> Iterator[tuple[Path, Path]]:
        """Each folder, and where its changes go."""
        for number, folder in enumerate(self.folders):
            yield folder.resolve(), self.scratch / str(number)
