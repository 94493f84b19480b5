"""The text of a blueprint's file, whatever the file holds."""

from pathlib import Path

from harness.blueprint.types import Problem

LARGEST_BYTES = 256 * 1024


def load_text(path: Path) -> str | Problem:
    """The file as text, in UTF-8 or UTF-16; the problem of one that is no text."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        return Problem(1, "there is no such file", "check the path; `harness new NAME` writes a blueprint")
    except IsADirectoryError:
        return Problem(1, "this is a folder", f"name the file in it, as {path / 'blueprint.md'}")
    except (OSError, ValueError) as error:
        message = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        return Problem(1, message, "check its permissions")
    if len(data) > LARGEST_BYTES:
        return Problem(
            1, f"larger than {LARGEST_BYTES // 1024} KiB: this is no blueprint", "keep plans short"
        )
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        return Problem(line, "not a text in UTF-8", "save it as UTF-8")
    before, binary, _ = text.partition("\0")
    if binary:
        return Problem(before.count("\n") + 1, "a binary file", "name the blueprint's Markdown file")
    return text
