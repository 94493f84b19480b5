"""From sources of libraries to the bank: each way of saying an error, and the way back from a message."""

import inspect
import textwrap
from pathlib import Path

import pytest

from harness.diagnosis.message_bank import KnownMessage, MessageBank, Place, shipped
from tools.message_bank.extraction import Found, messages
from tools.message_bank.families import Families
from tools.message_bank.merging import identifies, merged, reviewed
from tools.message_bank.packing import write
from tools.message_bank.sources import Source, counts

LIBRARY = """
LIMIT = "The limit of {} tokens was passed"

class Model:
    def fit(self, heads, width=3):
        if width % heads:
            raise ValueError(f"width {width} must be a multiple of heads {self.config.heads}")
        elif heads < 1:
            message = "the number of heads "
            message += "must be one at least"
            raise errors.ShapeError(message)
        raise TypeError("no %s given, but %(unit)s" % width)

def load(path, **options):
    assert path.exists(), "no file " + str(path) + " is there"
    torch._check(len(options) < 2, lambda: f"too many options: {len(options)}")
    try:
        read(path)
    except OSError as error:
        logger.error("Reading %s went wrong: %s", path, error)
        raise RuntimeError(LIMIT.format(options)) from error
    raise ValueError(reason)
"""
SAID = {
    ("ValueError", "width {width} must be a multiple of heads {heads}"): ("Model.fit", "width % heads"),
    ("ShapeError", "the number of heads must be one at least"): ("Model.fit", "heads < 1"),
    ("AssertionError", "no file {path} is there"): ("load", "not (path.exists())"),
    ("RuntimeError", "too many options: {len_options}"): ("load", "not (len(options) < 2)"),
    ("", "Reading {path} went wrong: {error}"): ("load", "except OSError"),
    ("RuntimeError", "The limit of {options} tokens was passed"): ("load", "except OSError"),
}


def found_in(text: str) -> list[Found]:
    return list(messages(Source("lib", "1.0", "lib/model.py", text)))


def bank_of(text: str, file: Path) -> MessageBank:
    versions = {"lib": ["1.0"]}
    write(merged(found_in(text), versions, Families()), versions, file)
    return MessageBank(file)


def test_every_way_of_saying_an_error_becomes_a_template_with_its_place() -> None:
    found = {(each.exception, each.template): (each.function, each.condition) for each in found_in(LIBRARY)}
    assert {key: found.get(key) for key in SAID} == SAID
    assert not any("reason" in template for _, template in found)


def test_the_parameters_that_a_message_is_about_are_named() -> None:
    about = {each.template: each.arguments for each in found_in(LIBRARY)}
    assert about["width {width} must be a multiple of heads {heads}"] == ("heads", "width")
    assert about["too many options: {len_options}"] == ()


@pytest.mark.parametrize(
    ("template", "is_kept"),
    [
        ("{name} must be positive", False),
        ("Invalid value: {value}", False),
        ("max_model_len must be positive", True),
        ("The tokenizer {name} has no chat template", True),
    ],
)
def test_a_template_that_could_be_anybodys_is_dropped(template: str, is_kept: bool) -> None:
    assert identifies(template) == is_kept


def test_a_message_is_found_with_what_stands_in_its_holes(tmp_path: Path) -> None:
    bank = bank_of(LIBRARY, tmp_path / "bank")
    said = "width 10\n  must be a multiple of heads 3"
    found = bank.find("lib.errors.ValueError", said)
    assert found is not None
    assert (found.place.library, found.place.file, found.place.function) == (
        "lib",
        "lib/model.py",
        "Model.fit",
    )
    assert found.values == {"width": "10", "heads": "3"}
    assert bank.find("KeyError", said) is None
    assert bank.find("ValueError", "the width 10 must be a multiple of heads 3") is None


def test_a_place_is_chosen_by_the_traceback(tmp_path: Path) -> None:
    source = 'def run():\n    raise ValueError("there is nothing to be run here")\n'
    versions = {"a": ["1"], "b": ["2"]}
    twice = [
        each
        for name in versions
        for each in messages(Source(name, versions[name][0], f"{name}/x.py", source))
    ]
    write(merged(twice, versions, Families()), versions, tmp_path / "bank")
    found = MessageBank(tmp_path / "bank").find(
        "ValueError", "there is nothing to be run here", ["train.py", "/usr/lib/site-packages/b/x.py"]
    )
    assert found is not None and found.place.library == "b"


def test_messages_of_a_bank_get_the_families_that_a_person_gave_since() -> None:
    place = Place("lib", "lib/a.py", "f", "", (), "code_error", False, "")
    message, families = KnownMessage("ValueError", "no such thing as {name}", (place,)), Families()
    assert reviewed([message], families) == [message]
    families.reviewed[message.id] = "config_error"
    ((given,),) = ([*each.places] for each in reviewed([message], families))
    assert (given.family, given.sure, given.file) == ("config_error", True, "lib/a.py")


def test_a_reviewed_family_goes_before_the_rules() -> None:
    [found] = found_in('def f():\n    raise ImportError("please pip install the thing first")\n')
    rules = Families()
    assert rules.of("00000000", found) == ("module_not_found", True)
    rules.reviewed["lib:f"] = "version_skew"
    assert rules.of("00000000", found) == ("version_skew", True)


@pytest.mark.parametrize("library", ["peft", "accelerate", "datasets", "gymnasium"])
def test_the_shipped_bank_finds_the_messages_of_an_installed_library(library: str) -> None:
    """Most of them: a release may differ from the one that was read."""
    package = pytest.importorskip(library)
    root = Path(inspect.getfile(package)).parents[1]
    files = [file for file in sorted((root / library).rglob("*.py")) if counts(str(file.relative_to(root)))]
    own = [
        each
        for file in files[:60]
        for each in messages(Source(library, "", file.name, file.read_text()))
        if each.exception[:1].isupper() and identifies(each.template)
    ]
    lost, misread = [], []
    for each in own:
        parts = KnownMessage(each.exception, each.template, ()).parts
        filled = "".join(text + (f"<{name}>" if name else "") for text, name in parts)
        found = shipped().find(each.exception, filled)
        if found is None:
            lost.append(each.template)
        elif any(not (value.startswith("<") and value.endswith(">")) for value in found.values.values()):
            misread.append((each.template, found.values))
    assert len(own) > 20
    assert len(lost) <= 0.1 * len(own), textwrap.shorten(str(lost), 2000)
    assert len(misread) <= 0.02 * len(own), misread[:5]
