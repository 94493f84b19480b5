"""The labels in front of values (`- path: /x`, `**Hint:** …`) and what they make of the text behind them."""

import re
from enum import IntEnum

_LABEL = re.compile(
    r"(?P<mark>\*\*|__)?(?P<label>[^\W\d_](?:[\w \-/]|[(（][^()（）]{0,40}[)）]){0,60}?)\s*"
    r"(?:(?P=mark)\s*[:：]|[:：]\s*(?P=mark)|(?(mark)(?!)|[:：]))(?=\s|$|[^\s/\\]|/(?!/))\s*(?P<value>.*)",
    re.DOTALL,
)


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


_REMARKS = (
    r"(?:for )?(?:hint|tip|warn(?:ing)?|caution|caveat|note|remark|reason|why|rationale|example|e\.?g"
    r"|comment|attention|important|todo|do not|don't|never|alternative(?:ly)?|old|previous(?:ly)?)s?\b"
    r"|(?:提示|警告|注意|备注|示例|例如|例子|原因)"
)
_DESCRIPTIONS = r"(?:desc(?:ription)?|explanation|details?|meaning)s?\b|(?:说明|描述|简介|解释)"
_DEFAULTS = r"default(?: value)?s?\b|默认"
_VALUES = (
    r"path|dir|directory|folder|location|value|python|executable|exe|interpreter|venv|environment"
    r"|yaml|yml|config|configuration|file|command|cmd|run|launch|execute|start|script|shell|codebase|code"
    r"|time|duration|limit|timeout|maximum|max|maxtime|purpose|goal|result|results|output|pattern|metric|metrics|regex"
    r"|first_step|host|key|keys|prepare|cleanup"
)
_VALUES_CHINESE = (
    "路径|目录|值|解释器|配置|文件|命令|启动|执行|运行|时间|时长|最长|最大|上限|目的|目标|结果|主机|位置"
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
    if re.match(_REMARKS, label):
        return Role.REMARK
    if re.match(_DESCRIPTIONS, label):
        return Role.DESCRIPTION
    if re.match(_DEFAULTS, label):
        return Role.DEFAULT
    if re.match(r"(?:content|item)s?\b|内容", label):
        return Role.CONTENT
    if re.search(rf"\b(?:{_VALUES})\b|{_VALUES_CHINESE}", label.replace("-", " ")):
        return Role.STATED
    return None
