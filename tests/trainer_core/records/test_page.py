"""The page of an episode holds it whole, and no text gets out of its place."""

import base64
import hashlib
import json
from html.parser import HTMLParser
from pathlib import Path

from tests.trainer_core.records.conftest import episode, letters, say
from trainer_core.records.page import episode_page
from trainer_core.records.store import EpisodeStore
from trainer_core.types import Task

HOSTILE = (
    "</script><script>alert(1)</script><!--<script> \u2028{{script}}{{data}} ]]> &lt; ' \" \\"
    "<img src=x onerror=alert(1)>"
)


class Elements(HTMLParser):
    """Start tags, and the text of each script."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.scripts: list[str] = []
        self.titles = ""
        self.sources: list[str] = []
        self._is_title = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]
        self._is_title = tag == "title"
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script" and self.scripts:
            self.scripts[-1] += data
        if self._is_title:
            self.titles += data
            self._is_title = False


def page_of(folder: Path, *texts: str) -> str:
    hostile = texts[0] if texts else "plain"
    calls = say(hostile, "an answer", agent=hostile), say(f"{hostile}an answer, then ", hostile)
    task = Task(hostile, hostile, init_messages=({"role": hostile, "content": [{"text": hostile}]},))
    store = EpisodeStore(folder, writes=True)
    given = episode("", *calls, task=task, output=hostile, error=hostile, metrics={hostile: 1.0})
    store.write("validation", 3, [given], letters, [0.25])
    return episode_page(store, store.records()[0])


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    plain, hostile = Elements(page_of(tmp_path / "1")), Elements(page_of(tmp_path / "2", HOSTILE))
    assert hostile.tags == plain.tags
    assert hostile.scripts[1] == plain.scripts[1]
    assert HOSTILE in hostile.titles
    data = json.loads(hostile.scripts[0])
    assert [value for _, value in data["texts"]][1] == HOSTILE
    first = "".join(data["pieces"][str(each)] for each in data["calls"][0]["prompt"])
    assert (first, data["calls"][0]["agent"]) == (HOSTILE, HOSTILE)


def test_a_page_needs_nothing_from_outside_and_runs_its_own_script_alone(tmp_path: Path) -> None:
    page = page_of(tmp_path)
    found = Elements(page)
    assert found.sources == []
    assert "://" not in page
    digest = base64.b64encode(hashlib.sha256(found.scripts[1].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in page


def test_a_call_has_only_what_is_new(tmp_path: Path) -> None:
    data = json.loads(Elements(page_of(tmp_path)).scripts[0])
    first, second = data["calls"]
    assert (first["after"], first["kept"]) == (None, 0)
    assert (second["after"], second["kept"], len(second["prompt"])) == (
        0,
        len("plainan answer"),
        len(", then "),
    )
    assert second["logprobs"] == [-0.5] * len("plain")
    assert data["advantage"] == 0.25
    assert ["reward", "0"] not in data["facts"]  # it has none
