"""The words by which a claim is recognised, and those that take it back.

In: a sentence and a place in it. Out: whether something is claimed there, denied, or only considered.
"""

from __future__ import annotations

import re

DIRECTION = re.compile(
    r"""\b(?:
      (?P<up>rose|risen|rises|rising|increas(?:ed|es|ing|e)|climb(?:ed|s|ing)|grew|grown|grows|growing|went\s+up|go(?:es)?\s+up|higher|
        raised|raises|greater|larger|upward|jump(?:ed|s)|lift(?:ed|s))
    | (?P<down>fell|fallen|falls|falling|decreas(?:ed|es|ing|e)|drop(?:ped|s|ping)?|declin(?:ed|es|ing|
      e)|went\s+down|go(?:es)?\s+down|lower(?:s|ed)?|
        reduced|reduces|shrank|shrunk|smaller|dipped|dip|downward|sank)
    | (?P<better>improv(?:ed|es|ing|e|ement|ements)|better|outperform(?:ed|s|ing)?|beat(?:s|en)?|
      superior|help(?:ed|s|ful)?|learn(?:ed|s|t)|
        gain(?:ed|s)?|boost(?:ed|s)?|benefit(?:ed|s)?|benefici\w+|progress(?:ed)?)
    | (?P<worse>worse(?:ned)?|hurt(?:s|ing)?|degrad(?:ed|es|ation)|deteriorat\w+|regress(?:ed|ion)|
      harm(?:ed|s|ful)?|inferior|underperform(?:ed|s)?|worsens)
    )\b(?!\s+(?:limit|bound|end\b|level\b|part))""",
    re.IGNORECASE | re.VERBOSE,
)
SIGNIFICANT = re.compile(r"\b(?:statistically\s+)?significan(?:t|tly|ce)\b", re.IGNORECASE)
UNCHANGED = re.compile(
    r"\b(?:unchanged|no\s+(?:detectable\s+|measurable\s+|significant\s+|clear\s+|real\s+|overall\s+)?change|did\s+not\s+change|stayed\s+(?:the\s+same|flat|constant)|"
    r"flat|remained\s+(?:the\s+same|flat|constant)|(?:was|is)\s+constant)\b",
    re.IGNORECASE,
)
SAME = re.compile(
    r"\b(?:no\s+(?:measurable\s+|real\s+|practical\s+)?effect|without\s+(?:any\s+)?effect|does\s+not\s+matter|do\s+not\s+matter|did\s+not\s+matter|"
    r"doesn't\s+matter|makes?\s+no\s+difference|made\s+no\s+difference|irrelevant|equal(?:ly)?|identical(?:ly)?|equivalent|the\s+same|"
    r"(?:just\s+)?as\s+(?:good|high|low|strong)\s+as|on\s+(?:a\s+)?par\s+with|no\s+(?:worse|better)\s+than|interchangeable|no\s+influence|no\s+impact|no\s+difference|not\s+differ\b|insensitive|has\s+no\s+bearing)\b",
    re.IGNORECASE,
)
UNDETECTED = re.compile(
    r"\b(?:no\s+(?:statistically\s+)?(?:detectable|significant)\s+(?:\w+\s+)?(?:difference|effect|change|improvement)|cannot\s+be\s+(?:told\s+apart|distinguished|separated)|"
    r"could\s+not\s+be\s+(?:told\s+apart|distinguished|separated|detected)|not\s+(?:statistically\s+)?(?:detectable|distinguishable|significant|significantly)|"
    r"indistinguishable|not\s+(?:been\s+)?(?:shown|established|resolved)|(?:no|not\s+any)\s+(?:clear\s+)?evidence\s+(?:of|for|that)|"
    r"includes?\s+(?:zero|0\b)|contains?\s+(?:zero|0\b)|spans?\s+(?:zero|0\b)|cross(?:es)?\s+(?:zero|0\b)|covers?\s+(?:zero|0\b)|"
    r"within\s+(?:the\s+)?noise|no\s+(?:change|difference|improvement|effect)\s+(?:is|was|has\s+been|could\s+be|can\s+be)\s+(?:shown|detected|found|established))\b",
    re.IGNORECASE,
)
EXCLUDES_ZERO = re.compile(
    r"\bexclud\w+\s+(?:zero|0\b)|\b(?:does|do)\s+not\s+(?:include|contain|cover|span|cross)\s+(?:zero|0\b)",
    re.IGNORECASE,
)
GENERAL = re.compile(
    r"\b(?:always|in\s+general|generali[sz]es?|guarantee\w*|proves?|proven|prove|definitively|conclusively|robust(?:ly)?|reliabl[ey]|"
    r"regardless\s+of\s+(?:the\s+)?seed|across\s+(?:all\s+|different\s+|multiple\s+|several\s+)?(?:random\s+)?seeds|for\s+any\s+(?:model|task|seed)|"
    r"consistently\s+(?:across|outperforms?|improves?)|reproducibl[ey]|universally|demonstrates\s+that|demonstrably|confirms\s+that|"
    r"will\s+(?:also\s+)?(?:improve|work|hold|outperform|help|reach)|establishe[sd]\s+that|without\s+(?:a\s+)?doubt|clearly\s+shows\s+that)\b",
    re.IGNORECASE,
)
LAW = re.compile(
    r"\b(?:improves|hurts|helps|outperforms|boosts|harms|beats|works\s+(?:better|well|best)|is\s+(?:better|superior|sufficient|necessary|effective)|"
    r"(?:is|are)\s+enough\s+to|leads\s+to|teaches|stabili[sz]es|prevents)\b",
    re.IGNORECASE,
)
CAUSE = re.compile(
    r"\b(?:because|due\s+to|caused\s+by|thanks\s+to|as\s+a\s+result\s+of|driven\s+by|owing\s+to|attribut\w+\s+to|the\s+(?:reason|cause)\s+(?:is|was)|"
    r"explained\s+by|which\s+explains|resulted\s+from|stems?\s+from)\b",
    re.IGNORECASE,
)
NOT = re.compile(
    r"\b(?:not|no|never|without|neither|nor|hardly|cannot|can't|didn't|doesn't|don't|wasn't|isn't|failed\s+to|fails\s+to|nothing|none|little)\b[^.;:]{0,28}$",
    re.IGNORECASE,
)
CONSIDERED = re.compile(
    r"\b(?:should|could|might|may|would|whether|if|to\s+see|expect\w*|hypothes\w+|in\s+order\s+to|the\s+question|asks?|asked|wanted|aim\w*|"
    r"suggest\w*|hint\w*|seems?|appears?\s+to|possibly|perhaps|likely|probably|cannot\s+(?:say|tell|show|conclude|establish)|nothing\s+can\s+be\s+(?:said|concluded)|"
    r"does\s+not\s+(?:say|show|prove|establish|mean|tell)|not\s+evidence|no\s+(?:statement|claim|conclusion)|unclear|unknown|in\s+principle|remains\s+to)\b[^.;]*$",
    re.IGNORECASE,
)
PROPOSAL = re.compile(
    r"^\W*(?:(?:then|next|first|second|also|finally|to\s+\w+[^,]*,|before[^,]*,|after[^,]*,|for[^,]*,|if[^,]*,)\W*)*(?:run|repeat|try|use|add|re-?run|train|extend|vary|increase|"
    r"decrease|lower|raise|sweep|test|compare|measure|consider|keep|evaluate|set|continue|report|check|look|stop|start|save|validate|double|halve|protect|"
    r"reduce|record|log|replicate|confirm|investigate|rerun|collect|give)\b|"
    r"\b(?:should|(?:could|would)(?!\s+(?:not|have|only|be\s+detected|need))|ought\s+to|recommend\w*|propose\w*|next\s+step|worth|suggest\s+(?:running|trying|using)|a\s+follow[\s-]?up|"
    r"needs?\s+to|must|will\s+need|future)\b",
    re.IGNORECASE,
)
_PAST = re.compile(
    r"\b(?:was|were|rose|fell|reached|ended|improved|dropped|increased|decreased|climbed|had|since|showed)\b",
    re.IGNORECASE,
)


def is_denied(text: str, start: int) -> bool:
    """Whether the words right before deny what stands at `start`."""
    return NOT.search(_clause_before(text, start)) is not None


def is_considered(text: str, start: int) -> bool:
    """Whether what stands at `start` is only a possibility, a question or an expectation."""
    return CONSIDERED.search(text[:start]) is not None


def is_proposal(text: str) -> bool:
    """Whether a sentence says what to do next instead of what was found."""
    return PROPOSAL.search(text) is not None and not (_PAST.search(text) and not PROPOSAL.match(text))


def _clause_before(text: str, start: int) -> str:
    before = text[:start]
    cut = max(
        before.rfind(mark) for mark in (";", ",", " but ", " while ", " whereas ", " and ", " although ")
    )
    return before[cut + 1 :] if cut >= 0 else before
