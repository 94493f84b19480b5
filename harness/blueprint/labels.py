"""One line of a blueprint: its label, its code spans and links, and words that stand for nothing."""

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_LABEL = re.compile(
    r"(?P<mark>\*\*|__)?(?P<label>[^\W\d_](?:[\w \-/]|[(（][^()（）]{0,40}[)）]){0,60}?)\s*"
    r"(?:(?P=mark)\s*[:：]|[:：]\s*(?P=mark)|(?(mark)(?!)|[:：]))(?=\s|$|[^\s/\\]|/(?!/))\s*(?P<value>.*)",
    re.DOTALL,
)
_NOTHING = re.compile(
    r"(?:n\s?/\s?a|na|none|null|nil|not applicable|(?:use |the )*default(?: value| path| command)?"
    r"|使用默认|采用默认|默认|不适用|无|空)"
    r"(?:值|路径|命令)?(?=$|\s*[,;:(（，。；：、)]|\.\s|\.$|\s+[-–—])",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"<[^<>]*[A-Za-z\u4e00-\u9fff][^<>]*>|\b(?:todo|tbd|fixme)\b|…|\.\.\.+$", re.IGNORECASE
)
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'", re.DOTALL)
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "「": "」"}


class Role(IntEnum):
    """How much a piece of text counts when a section's value is looked for; smaller counts more."""

    STATED = 1
    """A labelled value, a fenced block, or text that is nothing but the value."""
    CONTENT = 2
    """`content 1: …`: the value, unless a label that names it (`path: …`) stands beside it."""
    PROSE = 3
    """A sentence that may hold the value."""
    DESCRIPTION = 4
    """A description: used, with a warning, when nothing else has a value."""
    DEFAULT = 5
    """`Default: …`: what happens without a value."""
    REMARK = 6
    """A hint, warning or example: never a value."""


_ROLES = (
    (
        Role.REMARK,
        r"^(?:for )?(?:hint|tip|warn(?:ing)?|caution|caveat|note|remark|reason|why|rationale|example|e\.?g"
        r"|comment|attention|important|todo|do not|don't|never|alternative(?:ly)?|old|previous(?:ly)?)s?\b"
        r"|^(?:提示|警告|注意|备注|示例|例如|例子|原因)",
    ),
    (Role.DESCRIPTION, r"^(?:desc(?:ription)?|explanation|details?|meaning)s?\b|^(?:说明|描述|简介|解释)"),
    (Role.DEFAULT, r"^default(?: value)?s?\b|^默认"),
    (Role.CONTENT, r"^(?:content|item)s?\b|^内容"),
    (
        Role.STATED,
        r"\b(?:path|dir|directory|folder|location|value|python|executable|exe|interpreter|venv|environment"
        r"|yaml|yml|config|configuration|file|command|cmd|run|launch|execute|start|script|shell|codebase|code"
        r"|time|duration|limit|timeout|maximum|max|maxtime|purpose|goal|result|results|output|pattern|metric"
        r"|metrics|regex|first_step|host|key|keys|prepare|evaluate|cleanup)\b"
        r"|路径|目录|值|解释器|配置|文件|命令|启动|执行|运行|时间|时长|最长|最大|上限|目的|目标|结果|主机|位置",
    ),
)


def split_label(text: str) -> tuple[str, str]:
    """(`path`, `/x`) for `path: /x`; ("", text) for text without a label. Lower case, without markup."""
    found = _LABEL.match(text)
    if not found or "://" in text[: found.start("value") + 2] or re.match(r"[A-Za-z]:[\\/]", text):
        return "", text
    label = re.sub(r"[(（].*?[)）]", "", found["label"])
    return re.sub(r"\s+", " ", label).strip().lower(), found["value"].strip()


def role_of(label: str) -> Role | None:
    """What a label says about its text; None when it does not say."""
    spaced = label.replace("-", " ")
    for role, words in _ROLES:
        if re.search(words, spaced if role == Role.STATED else label):
            return role
    return None


@dataclass(frozen=True)
class Spans:
    """What a line marks as literal text (code spans and link targets)."""

    literals: tuple[str, ...]
    before: str
    """The words in front of the first literal."""
    after: str
    """The words between it and the next, or the end."""


@cache
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
    marked = tuple(text for text in literals if text.strip())
    return Spans(marked, words[0].strip(" *_:："), words[1].strip(" *_"))


def unquoted(text: str) -> str | None:
    """The text at the start of `text` that stands in quotes, without them; None when it starts otherwise."""
    close = _QUOTES.get(text[:1])
    end = text.find(close, 1) if close else -1
    return text[1:end] if end > 1 else None


def bare(command: str) -> str:
    """A command without what it quotes, which is a person's own word whatever it looks like."""
    return _QUOTED.sub("", command)


def is_nothing(text: str) -> bool:
    """True if the text says `NA`, `none`, `default` or `默认`, with or without a remark behind it."""
    return bool(_NOTHING.match(text.strip(" *_`\"'")))


def is_placeholder(text: str) -> bool:
    """True if the text was never filled in: `<absolute path>`, `TODO`, `...`."""
    return bool(_PLACEHOLDER.search(text))
