"""Sections that nobody has filled in: labels without a value, or still the words of the original template.

In: the sections of a blueprint. Out: the names of those that are unfilled, in their order.
"""

from collections.abc import Mapping
from functools import cache

from harness.blueprint import names
from harness.blueprint.document import Section, read_document
from harness.blueprint.labels import bare, is_placeholder
from harness.installation import own_text, templates_dir

ABOUT_WHAT_RUNS = (names.PURPOSE, names.YAML, names.COMMAND)
"""Sections of which one has to say something."""


def unfilled(sections: Mapping[str, Section]) -> tuple[str, ...]:
    """Of purpose, config and command those that are there and say nothing of their own."""
    return tuple(name for name in ABOUT_WHAT_RUNS if name in sections and _says_nothing(sections[name]))


def _says_nothing(section: Section) -> bool:
    """A heading may have words behind the name; a line of text with words behind it says something."""
    own = [item for item in section.items if item.value.strip() and not (item.title and section.heading)]
    return all(is_placeholder(bare(item.value) if item.block else item.value) for item in own) or _words(
        section
    ) in _original(section.name)


def _words(section: Section) -> str:
    return " ".join(section.text.split()).strip(" -")


@cache
def _original(name: str) -> tuple[str, ...]:
    """The template's own words for this section."""
    text = own_text(templates_dir() / "blueprints" / "original.md")
    return tuple(_words(section) for section in read_document(text)[0] if section.name == name)
