"""`harness check` of files that are no plans."""

from pathlib import Path

import pytest

from tests.harness.cli.typed import typed


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "there is no such file"), (b"", "no blueprint section"), (b"\x7fELF\0\1\2", "a binary file")],
)
def test_d25_only_the_error_is_printed(tmp_path: Path, content: bytes | None, says: str) -> None:
    file = tmp_path / "plan.md"
    if content is not None:
        file.write_bytes(content)
    status, out, said = typed("check", file)
    assert (status, out) == (2, "cannot run\n")
    assert says in said and len(said.splitlines()) == 1
