"""A misspelt key, written as it was meant."""

import difflib
import re

from harness.config import keys
from harness.repair.remedies.situation import Repair, Situation

_LIKENESS = 0.8


def correct_key(now: Situation) -> Repair | None:
    """The value moves to the key that was meant: the one that the log names, else the nearest known one; or
    to the key that the log misses, where the config has one that is spelt nearly so. Whether it may be moved
    there, the rules say."""
    wrong = _in_config(now, now.captured("key"))
    meant = _meant(now, wrong) if wrong is not None else None
    if wrong is None:
        wrong, meant = _misses(now, _plain(now.captured("wanted") or now.captured("key")))
    if wrong is None or meant is None or meant in now.settings.values:
        return None
    return Repair(edits={meant: now.settings.values.get(wrong)}, remove=(wrong,))


def _misses(now: Situation, wanted: str) -> tuple[str | None, str | None]:
    """The one key of the config that is spelt nearly as the one that the log misses, and that one."""
    name = wanted.rpartition(".")[2]
    found = [key for key in now.settings.values if _alike(key.rpartition(".")[2], name)]
    if not name or len(found) != 1 or any(key.endswith(name) for key in now.settings.values):
        return None, None
    above = found[0].rpartition(".")[0]
    return found[0], f"{above}.{name}".lstrip(".")


def _plain(said: str) -> str:
    """A key without the signs that logs and command lines put around it."""
    return re.sub(r"^[+~-]*|['\"`]", "", said).strip(". ")


def _in_config(now: Situation, said: str) -> str | None:
    """The one key of the config that the log speaks of."""
    said = _plain(said)
    if not said:
        return None
    found = [key for key in now.settings.values if key == said or key.endswith(f".{said}")]
    return found[0] if len(found) == 1 else None


def _meant(now: Situation, wrong: str) -> str | None:
    above, _, name = wrong.rpartition(".")
    if right := _key_in(now.captured("meant")):
        beside = right if "." in right else f"{above}.{right}".lstrip(".")
        return beside if _alike(name, right.rpartition(".")[2]) else None
    known = keys.nearest_own_key(wrong)
    return known if known is not None and _alike(name, known.rpartition(".")[2]) else None


def _key_in(said: str) -> str:
    """The key in what was said to be meant: alone, or in a sentence that asks."""
    asked = re.search(r"did you mean:?\s+['\"`]?([\w.-]+)", said, re.IGNORECASE)
    key = _plain(asked[1] if asked else said)
    return key if re.fullmatch(r"[\w.-]+", key) else ""


def _alike(one: str, other: str) -> bool:
    return one != other and difflib.SequenceMatcher(None, one, other).ratio() >= _LIKENESS
