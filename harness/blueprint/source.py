"""The text of a blueprint's file, whatever the file holds."""

from pathlib import Path

from harness.blueprint.types import Problem

LARGEST_BYTES = 256 * 1024


class UnreadableError(Exception):
    """The file is no text; `problem` says why."""

    def __init__(self, line: int, message: str, fix: str) -> None:
        super().__init__(message)
        self.problem = Problem(line, message, fix)


def load_text(path: Path) -> str:
    """The file as text, in UTF-8 or UTF-16. Raises UnreadableError."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except FileNotFoundError as error:
        fix = "check the path; `harness new NAME` writes a blueprint"
        raise UnreadableError(1, "there is no such file", fix) from error
    except IsADirectoryError as error:
        fix = f"name the file in it, as {path / 'blueprint.md'}"
        raise UnreadableError(1, "this is a folder", fix) from error
    except (OSError, ValueError) as error:
        message = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise UnreadableError(1, message, "check its permissions") from error
    if len(data) > LARGEST_BYTES:
        message = f"larger than {LARGEST_BYTES // 1024} KiB: this is no blueprint"
        raise UnreadableError(1, message, "keep plans short")
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UnreadableError(line, "not a text in UTF-8", "save it as UTF-8") from error
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise UnreadableError(line, "a binary file", "name the blueprint's Markdown file")
    return text
