"""The inside of one line of Markdown: its code spans and links, and the words around them."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_NOTHING = re.compile(
    r"(?:n\s?/\s?a|na|none|null|nil|not applicable|(?:use |the )*default(?: value| path| command)?"
    r"|使用默认|采用默认|默认|不适用|无|空)"
    r"(?:值|路径|命令)?(?=$|\s*[,;:(（，。；：、)]|\.\s|\.$|\s+[-–—])",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"<[^<>]*[A-Za-z\u4e00-\u9fff][^<>]*>|\b(?:todo|tbd|fixme)\b|…|\.\.\.+$", re.IGNORECASE
)
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "「": "」"}


@dataclass(frozen=True)
class Spans:
    """What a line marks as literal text."""

    literals: tuple[str, ...]
    """Code spans and link targets, in order."""
    before: str
    """The words in front of the first literal."""
    after: str
    """The words between it and the next, or the end."""


@lru_cache(maxsize=1)
def _markdown() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").disable(["emphasis", "escape", "entity", "html_inline", "image"])


def spans(line: str) -> Spans:
    """The code spans and link targets of a line."""
    literals: list[str] = []
    words = ["", "", ""]
    in_link = False
    for token in _markdown().parseInline(line)[0].children or ():
        if token.type == "code_inline" and not in_link:
            literals.append(token.content)
        elif token.type == "link_open":
            in_link = True
            literals.append(str(token.attrs.get("href", "")))
        elif token.type == "link_close":
            in_link = False
        elif not in_link:
            words[min(len(literals), 2)] += token.content
    return Spans(
        tuple(text for text in literals if text.strip()), words[0].strip(" *_:："), words[1].strip(" *_")
    )


def unquoted(text: str) -> str | None:
    """The text at the start of `text` that stands in quotes, without them; None when it starts otherwise."""
    close = _QUOTES.get(text[:1])
    end = text.find(close, 1) if close else -1
    return text[1:end] if end > 1 else None


def is_nothing(text: str) -> bool:
    """Whether the text says `NA`, `none`, `default` or `默认`, with or without a remark behind it."""
    return bool(_NOTHING.match(text.strip(" *_`\"'")))


def is_placeholder(text: str) -> bool:
    """Whether the text was never filled in: `<absolute path>`, `TODO`, `...`."""
    return bool(_PLACEHOLDER.search(text))
