"""Narratives as models write them: the false ones are caught, the true ones pass."""

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from harness.results.claims import check
from tests.harness.results.claims.worlds import evidence

FILES = sorted((Path(__file__).parent / "corpus").glob("*.yaml"))
STORIES: dict[str, list[dict[str, Any]]] = {"borne_out": [], "not_borne_out": []}
for file in FILES:
    for kind, items in YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8")).items():
        STORIES[kind] += items


def named(items: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(item, id=f"{item['world']}-{index}") for index, item in enumerate(items)]


@pytest.mark.parametrize("story", named(STORIES["borne_out"]))
def test_what_is_true_passes(story: dict[str, Any]) -> None:
    checked = check(story["text"], evidence(story["world"]), story.get("section", "findings"))
    assert [claim.reason for claim in checked.wrong] == []
    assert [omission.what for omission in checked.omissions] == []


@pytest.mark.parametrize("story", named(STORIES["not_borne_out"]))
def test_what_is_false_is_caught(story: dict[str, Any]) -> None:
    checked = check(story["text"], evidence(story["world"]), story.get("section", "findings"))
    assert not checked.ok, story["why"]
    assert all(claim.why for claim in checked.wrong)


def test_there_are_enough_of_them() -> None:
    assert all(len(items) >= 35 for items in STORIES.values())
    assert len({item["world"] for items in STORIES.values() for item in items}) >= 4
