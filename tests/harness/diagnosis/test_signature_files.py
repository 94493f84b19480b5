"""The YAML of signatures: what is read, and how every mistake is named."""

from pathlib import Path

import pytest

from harness.diagnosis.signatures import SignatureError, families, load
from harness.diagnosis.signatures.schema import parse, prove

GOOD = """
- id: disk_is_full
  family: disk_full
  name: Disk full
  cause: No room for {path}.
  when:
    - message: 'No space left on device: (?P<path>\\S+)|Disk quota exceeded'
"""


def test_words_are_the_plain_text_of_every_alternative() -> None:
    (signature,) = parse(GOOD, "x.yaml")
    assert signature.words == ("no space left on device: ", "disk quota exceeded")


def test_what_is_about_exceptions_only_needs_no_words() -> None:
    (signature,) = parse(GOOD.replace("message: '", "exception: 'OSError'\n      message: '"), "x.yaml")
    assert signature.words == ()


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("family: disk_full", "family: disks", "none of those in families.yaml"),
        ("  name: Disk full\n", "", "name: Field required"),
        ("id: disk_is_full", "id: Disk Full", "id: "),
        ("when:", "where:", "where: "),
        ("quota exceeded", "quota exceeded(?P<a>", "global|missing|unterminated"),
        ("No space left on device: ", r"\d+ ", "no plain text of 4 characters"),
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


def test_two_of_a_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(GOOD + GOOD)
    with pytest.raises(SignatureError, match="two signatures with the id disk_is_full"):
        load([tmp_path])


def test_every_family_but_unknown_has_a_signature() -> None:
    covered = {signature.family for signature in load([]).signatures}
    assert set(families()) - covered == {"unknown"}
    assert len(families()) == 46


def test_every_shipped_pattern_can_be_compiled() -> None:
    prove(load([]).signatures, "shipped")
