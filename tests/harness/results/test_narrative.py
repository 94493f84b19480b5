"""What a model writes stands in the report as words, whatever it tries."""

from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from harness.results.narrative import LONGEST, Section, sections, tell
from tests.harness.results.claims.worlds import evidence

READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
QUIET = {"p", "h4", "ul", "ol", "li", "em", "strong", "code", "pre", "blockquote", "br"}
TABLE = {"table", "thead", "tbody", "tr", "th", "td"}
PIECES = st.sampled_from(
    [
        *("# Key figures\n", "## Measured\n", "Measured\n---\n", "===\n", "---\n", "***\n"),
        *(
            "| a | b |\n|---|---|\n| 1 | 2 |\n",
            "```\n",
            "~~~text\n",
            "    code\n",
            "> ",
            "- ",
            "1. ",
            "+ ",
            "\t",
        ),
        *("<!--", "-->", "<script>alert(1)</script>", "<div>\n", "</blockquote></main>", "<b ", "]]>"),
        *("[x](http://e.x)", "[x]", "[x]: http://e.x\n", "![](http://e.x/p.png)", "<http://e.x>", "www.e.x"),
        *(
            "[a]**(http://e.x)**",
            "a@e.x",
            "[!NOTE]\n",
            "[^1]: x\n",
            "$x$",
            "~~x~~",
            "&lt;",
            "&#35; x",
            "\\",
            "\\\n",
        ),
        *(
            "**",
            "*",
            "_",
            "`",
            "``",
            "|",
            "\n",
            "\n\n",
            " ",
            "  \n",
            "word",
            "0.5",
            "2.",
            ":",
            "!",
            "\u2028",
            "{{ x }}",
        ),
    ]
)
ATTEMPTS = st.lists(PIECES, max_size=25).map("".join)


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert set(dict(attrs)) <= {"style", "start"}, attrs
        assert dict(attrs).get("style") in (None, "text-align:right", "text-align:left", "text-align:center")
        self.seen.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag == "br" or self.open.pop() == tag

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_data(self, data: str) -> None:
        self.text += data


def only(text: str) -> Section | None:
    made = sections({"findings": text}, ())
    return made[0] if made else None


def flat(tokens: list[Token]) -> list[Token]:
    return [part for token in tokens for part in (token, *flat(token.children or []))]


@given(ATTEMPTS)
@example("# Key figures\n\n| what | value |\n|---|---|\n| pass rate | 1.000 |")
@example("x <!-- hides the rest of the report")
@example("- a\n  - \n- b\n---\n1. \n2. c")
@example("``# Key figures\n``[x](http://e.x)``")  # two pieces of code side by side
@example("> > ```\n> > ## x\n\n<div>")
def test_markdown_is_one_quotation_of_words(text: str) -> None:
    section = only(text)
    if section is None or not section.markdown:
        return
    tokens = READER.parse(f"## Before\n\n{section.markdown}\n\n## After\n")
    top = [token.type for token in tokens if token.level == 0]
    heading = ["heading_open", "inline", "heading_close"]
    outline = [kind for kind in top if kind != "inline"]
    assert outline == ["heading_open", "heading_close", "blockquote_open", "blockquote_close", *heading[::2]]
    inside = flat(tokens)[4:-4]
    kinds = {token.type.removesuffix("_open").removesuffix("_close") for token in inside}
    words = "".join(token.content for token in inside if token.type in ("text", "text_special"))
    assert not any(mark in words for mark in ("://", "www.", "@")), "viewers make links of these"
    assert not kinds & {"heading", "table", "html_block", "html_inline", "link", "image", "hr", "s", "em"}


@given(ATTEMPTS)
@example('```"><script>\nx\n```')
@example("<img src=x onerror=alert(1)>\n\n[x](javascript:alert(1))")
def test_html_holds_quiet_elements_only(text: str) -> None:
    section = only(text)
    if section is not None:
        assert Tags(section.html).seen <= QUIET | TABLE


def test_links_and_pictures_are_shown_as_text() -> None:
    section = only("See [the log](http://e.x/1) and ![p](http://e.x/p.png).")
    assert section is not None
    assert Tags(section.html).text.strip() == "See [the log](http://e.x/1) and ![p](http://e.x/p.png)."
    assert section.markdown == "> See `[the log](http://e.x/1)` and `![p](http://e.x/p.png).`"


def test_ordinary_markdown_stays_readable() -> None:
    section = only(
        "# Result\n\nRate **0.5** with `lr: 1e-6`:\n\n- one\n- two\n  1. deep\n\n```\nraw | text\n```"
    )
    assert section is not None
    assert section.markdown.splitlines() == [
        *("> **Result**", ">", "> Rate 0.5 with `lr: 1e-6`:", ">", "> - one", "> - two", ">", ">   1. deep"),
        *(">", "> ```", "> raw | text", "> ```"),
    ]
    assert "<h4>Result</h4>" in section.html and "<strong>0.5</strong>" in section.html


def test_sections_come_in_their_order_and_unknown_or_empty_ones_not_at_all() -> None:
    said = {"next_steps": "n", "evil": "e", "findings": "f", "limitations": " \n"}
    assert [section.title for section in sections(said, ())] == ["Findings", "Next steps"]


def test_a_long_section_is_cut_and_says_so() -> None:
    section = only("word " * LONGEST)
    assert section is not None
    assert len(section.html) < LONGEST + 200
    assert f"cut off here; {5 * LONGEST} characters were written" in section.html


@pytest.mark.parametrize("depth", [10, 3000])
def test_deep_nesting_ends(depth: int) -> None:
    section = only("> " * depth + "x")
    assert section is not None
    Tags(section.html)


def test_secrets_are_masked_across_markup() -> None:
    (section,) = sections(
        {"findings": "it is correct-**horse**-*battery*, **bold** [redacted]"}, ("correct-horse-battery",)
    )
    assert "horse" not in section.html + section.markdown
    assert "[redacted]" in section.markdown


def test_what_is_not_borne_out_is_struck_in_place_and_listed() -> None:
    said = (
        "The **pass rate** rose from 0.275 to *0.850*. The `actor/kl_loss` ended at **0.08**, oddly.\n\n"
        "- entropy fell because of luck\n\n```\nreward: 0.99\n```\n"
    )
    told = tell({"findings": said}, (), evidence("sorting"))
    (section,) = told.sections
    assert "~~The `actor/kl_loss` ended at 0.08, oddly.~~" in section.markdown
    assert "> The pass rate rose from 0.275 to 0.850. ~~" in section.markdown
    assert "~~reward: 0.99~~" in section.markdown and "luck [not checkable]" in section.markdown
    assert Tags(section.html).seen <= QUIET | {"del"}
    assert "<strong><del>0.08</del></strong>" in section.html
    assert [remark.sentence for remark in told.struck] == [
        "The actor/kl_loss ended at 0.08, oddly.",
        "reward: 0.99",
    ]
    assert [remark.sentence for remark in told.unsure] == ["entropy fell because of luck"]
    assert told.as_json()["claims"] > 3


@given(ATTEMPTS)
@example("0.99 `0.99`**0.99**_0.99_\n\n| 0.99 | 0.9 |\n|---|---|\n| ~~0.99 | 0.99~~ |")
@settings(max_examples=60, deadline=None)
def test_struck_text_is_as_quiet_as_any(text: str) -> None:
    for section in tell({"findings": text}, (), evidence("sorting")).sections:
        assert Tags(section.html).seen <= QUIET | TABLE | {"del"}
        tokens = READER.parse(f"## Before\n\n{section.markdown}\n\n## After\n")
        top = [token.type for token in tokens if token.level == 0 and token.type != "inline"]
        quoted = ["blockquote_open", "blockquote_close"] if section.markdown else []
        heading = ["heading_open", "heading_close"]
        assert top == [*heading, *quoted, *heading]
