"""Text from outside shows as itself in Markdown and changes nothing around it."""

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from harness.results.text import clean, code, fenced, markdown

ODD = st.text(alphabet="ab1 _*`[](){}<>#|~$!:.-+=\\&;/\t\n", max_size=30)
RENDERER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def shown(text: str) -> str:
    """The text of a rendered paragraph; fails if anything but plain text came out."""
    tokens = RENDERER.parse(text)
    assert [token.type for token in tokens] in ([], ["paragraph_open", "inline", "paragraph_close"]), tokens
    children = tokens[1].children or [] if tokens else []
    assert {child.type for child in children} <= {"text", "text_special"}, children
    return "".join(child.content for child in children)


@given(ODD)
def test_markdown_shows_exactly_the_text(text: str) -> None:
    assert shown(markdown(text)) == " ".join(text.split())


@given(ODD)
def test_markdown_stays_in_its_table_cell(text: str) -> None:
    tokens = RENDERER.parse(f"| a | b |\n|---|---|\n| x {markdown(text)} | {code(text)} |\n")
    assert [token.type for token in tokens].count("td_open") == 2


@given(ODD)
def test_a_fence_holds_what_is_in_it(text: str) -> None:
    (fence,) = RENDERER.parse(fenced(text))
    assert fence.type == "fence" and fence.content.rstrip() == text.rstrip()


@given(ODD.filter(str.strip))
def test_code_shows_the_text_in_one_line(text: str) -> None:
    children = RENDERER.parse(f"x {code(text)} y")[1].children or []
    (inline,) = [child for child in children if child.type == "code_inline"]
    assert inline.content == " ".join(text.split()).replace("|", "¦")


def test_clean_takes_escapes_and_direction_marks_out() -> None:
    assert clean("\x1b[31mred\x1b[0m\x00 \u202eevil\u202c \ud800\n\tkept") == "red evil ?\n\tkept"
