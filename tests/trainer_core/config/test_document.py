"""The committed page shows the schema as it is."""

from itertools import pairwise
from pathlib import Path

import pytest

from trainer_core.config.document import renew, with_key_tables
from trainer_core.config.keys import all_keys

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_committed_page_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_key_tables(page) == page, "run `python -m trainer_core.config.document docs/configuration.md`"


def test_every_key_has_one_row_that_markdown_reads_as_five_cells() -> None:
    from markdown_it import MarkdownIt

    tokens = MarkdownIt().enable("table").parse(PAGE.read_text(encoding="utf-8"))
    cells = [inline.content for opening, inline in pairwise(tokens) if opening.type == "td_open"]
    settable = [key for key in all_keys().values() if not key.is_section]
    assert len(cells) == 5 * len(settable)
    assert sorted(cells[0::5]) == sorted(f"`{key.name}`" for key in settable)


def test_renewing_changes_only_what_is_between_the_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    head, begin, rest = PAGE.read_text(encoding="utf-8").partition("<!-- keys: ")
    page.write_text(f"{head}{begin}{rest.replace('| `lr` |', '| `old` |')}", encoding="utf-8")
    renew(page)
    assert page.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="needs the lines"):
        with_key_tables("# nothing here\n")
