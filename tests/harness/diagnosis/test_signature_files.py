"""The YAML of signatures: what is read, how every mistake is named, which files of a user can be used, and
that no pattern takes long."""

import os
import re
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from harness.diagnosis import diagnose_log
from harness.diagnosis.matching import LONGEST_LINE
from harness.diagnosis.signatures import SignatureError, families, load, load_usable
from harness.diagnosis.signatures.schema import Pattern, parse, prove
from harness.diagnosis.types import NOTHING_FAILED, UNKNOWN

GOOD = """
- id: disk_is_full
  family: disk_full
  name: Disk full
  cause: No room for {path}.
  when:
    - message: 'No space left on device: (?P<path>\\S+)|Disk quota exceeded'
"""


def test_words_are_the_plain_text_of_every_alternative_and_exceptions_need_none() -> None:
    (signature,) = parse(GOOD, "x.yaml")
    assert signature.words == ("no space left on device: ", "disk quota exceeded")
    (signature,) = parse(GOOD.replace("message: '", "exception: 'OSError'\n      message: '"), "x.yaml")
    assert signature.words == ()


def test_what_raised_it_is_the_innermost_frame() -> None:
    (signature,) = parse(GOOD.replace("message:", "raised_in: '-packages/pandas/'\n      message:"), "x.yaml")
    (pattern,) = (clause.frames for clause in signature.when)
    inner, outer = (f'File "/v/site-packages/{name}/a.py", line 3, in f' for name in ("pandas", "torch"))
    assert pattern is not None and pattern.search(f"{outer}\nx = g()\n{inner}\nraise it")
    assert not pattern.search(f"{inner}\nx = g()\n{outer}\nraise it")


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("family: disk_full", "family: disks", "none of those in families.yaml"),
        ("  name: Disk full\n", "", "name: Field required"),
        ("id: disk_is_full", "id: Disk Full", "id: "),
        ("when:", "where:", "where: "),
        ("quota exceeded", "quota exceeded(?P<a>", "global|missing|unterminated"),
        ("No space left on device: ", r"\d+ ", "no plain text of 4 characters"),
        ("message:", "raised_in: x\n      frames: x\n      message:", "`frames` or `raised_in`"),
        ("message:", "near:", "needs `exception`, `message` or `frames`"),
        ("- id", "id", "not YAML|is a list"),
    ],
)
def test_mistakes_are_named_with_file_and_signature(before: str, after: str, says: str) -> None:
    with pytest.raises(SignatureError, match=says) as error:
        prove(parse(GOOD.replace(before, after), "x.yaml"), "x.yaml")
    assert str(error.value).startswith("x.yaml")


def test_a_users_signature_takes_the_place_of_a_shipped_one(tmp_path: Path) -> None:
    shipped = load([]).signatures[-1]
    own = GOOD.replace("disk_is_full", shipped.id)
    (tmp_path / "mine.yaml").write_text(own)
    book = load([tmp_path])
    assert [each.name for each in book.signatures if each.id == shipped.id] == ["Disk full"]
    assert len(book.signatures) == len(load([]).signatures)
    assert book.signatures[0].id == shipped.id


def test_every_family_of_failures_has_a_signature_and_every_pattern_can_be_compiled() -> None:
    prove(load([]).signatures, "shipped")
    covered = {signature.family for signature in load([]).signatures}
    assert set(families()) - covered == {UNKNOWN, NOTHING_FAILED}


OURS = "- {id: ours, family: auth, name: a, cause: b, when: [{message: 'our own words'}]}\n"
BROKEN = {
    "no YAML": b"- id: [a\n",
    "not UTF-8": b"- id: \xff\xfe\n",
    "no list": b"id: a\n",
    "a wrong pattern": OURS.replace("own words", "own words(").encode(),
    "an endless pattern": OURS.replace("own words", "own words{99999999999}").encode(),
    "no such date": b"- 2024-99-99\n",
    "nested too deeply": OURS.replace("own words", "own words" + "(" * 3000 + ")" * 3000).encode(),
}


def ids(folder: Path) -> set[str]:
    return {signature.id for signature in load_usable([folder])[0].signatures}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_a_file_that_cannot_be_used_is_an_error_or_left_out(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.yaml").write_bytes(content)
    (tmp_path / "good.yaml").write_text(OURS)
    with pytest.raises(SignatureError, match=r"bad\.yaml"):
        load([tmp_path])
    book, (told,) = load_usable([tmp_path])
    assert "bad.yaml" in told
    assert "ours" in {signature.id for signature in book.signatures}
    assert len(book.signatures) == len(load([]).signatures) + 1


def test_of_two_files_with_one_id_the_first_counts_and_brings_all_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(OURS)
    (tmp_path / "b.yaml").write_text(OURS.replace("ours", "other") + OURS)
    with pytest.raises(SignatureError, match="two signatures with the id ours"):
        load([tmp_path])
    assert "ours" in ids(tmp_path) and "other" not in ids(tmp_path)


def test_a_mended_file_is_used(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("no list")
    assert "ours" not in ids(tmp_path)
    file.write_text(OURS)
    os.utime(file, ns=(1, 1))
    assert "ours" in ids(tmp_path)


def test_the_lock_of_an_editor_is_no_signature_file(tmp_path: Path) -> None:
    (tmp_path / ".#a.yaml").symlink_to("ada@host.1:2")
    assert len(load([tmp_path]).signatures) == len(load([]).signatures)


PROBE = 4000
LONGEST_SEARCH_S = 0.6  # of the processor; the slowest takes a twelfth of it, and a third on a slow machine
LONGEST_DIAGNOSIS_S = 30.0
HOSTILE = (*"a_1. /'\"([=-", "A1", "a ", "1 ", "1.", "a.", "/a", "'a' ", "x\n")
WORDS = ("batch", "prompt", "Config", "key ", "/p/")
SAID = re.compile(r"[A-Za-z_][A-Za-z_ ]{2,}")
SYNTAX = re.compile(r"\(\?P<\w+>|\(\?[a-z]*[:=!]|\(\?<[=!]|\\[a-zA-Z]|\{\d+,?\d*\}")


def _probes(pattern: str) -> Iterator[str]:
    """Long lines of what patterns repeat, alone and with words of the pattern itself."""
    said = list(dict.fromkeys(word.strip() for word in SAID.findall(SYNTAX.sub(" ", pattern))))[:5]
    pieces = [f"{word}{sign}" for word in said[:3] for sign in (" ", "1 ")]
    for piece in (*HOSTILE, *pieces, f"{' '.join(said)} 'a' 1 "):
        yield (piece * PROBE)[:PROBE]
    for word in said[:3]:
        for sign in ("1", "a", " "):
            yield f"{word}{sign * PROBE}"


def _slow(pattern: Pattern) -> list[str]:
    """The beginnings of probes that take too long, twice in a row."""
    probes = _probes(pattern.text)
    return [probe[:40] for probe in probes if all(_takes_long(pattern, probe) for _ in range(2))]


def _takes_long(pattern: Pattern, probe: str) -> bool:
    began = time.process_time()
    pattern.search(probe)
    return time.process_time() - began > LONGEST_SEARCH_S


def test_no_shipped_pattern_takes_long_on_a_hostile_line() -> None:
    patterns = {
        pattern.text: pattern
        for signature in load([]).signatures
        for clause in (*signature.when, *signature.unless)
        for pattern in vars(clause).values()
        if pattern is not None
    }
    assert {text: slow for text, pattern in patterns.items() if (slow := _slow(pattern))} == {}


def test_fifty_errors_with_endless_lines_are_diagnosed_soon(tmp_path: Path) -> None:
    lines = [
        f'Traceback (most recent call last):\n  File "/w/t{number}.py", line {number + 1}, in f{number}\n'
        f"    main{number}()\nValueError: {word}{sign * (5 * LONGEST_LINE)}\n"
        for number, (word, sign) in enumerate(product(WORDS, "1a. /_'=-9"))
    ]
    assert len(lines) == 50
    log = tmp_path / "run.log"
    log.write_text("".join(lines))
    began = time.process_time()
    diagnose_log(log, catalogue=load([]))
    assert time.process_time() - began < LONGEST_DIAGNOSIS_S
