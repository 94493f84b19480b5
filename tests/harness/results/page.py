"""A report page as a test reads it."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

VOID = {"meta", "br", "wbr", "img", "input"}


class Page(HTMLParser):
    """The elements, attributes and text of a page; fails on tags that do not close. `open`: those that are
    open now, with their class; `scripts`: the text of each script, with its type."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.numbers: dict[str, str] = {}
        self.scripts: list[tuple[str | None, str]] = []
        self.open: list[tuple[str, str | None]] = []
        self._fact: str | None = None
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._fact = dict(attrs).get("data-fact")
        if tag not in VOID:
            self.open.append((tag, dict(attrs).get("class")))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop()[0] == tag
        self._fact = None

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1][0] == "script":
            self.scripts.append((self.elements[-1][1].get("type"), data))
            return
        self.text.append(data)
        if self._fact:
            self.numbers[self._fact] = data

    def assert_only_our_script_runs(self) -> None:
        """Fail unless the page asks the network for nothing and runs the one script that its policy names."""
        data, ours = self.scripts
        assert data[0] == "application/json" and ours[0] is None and len(self.scripts) == 2
        policy = next(
            str(attributes["content"]) for _, attributes in self.elements if "http-equiv" in attributes
        )
        digest = base64.b64encode(hashlib.sha256(ours[1].encode()).digest()).decode()
        assert f"default-src 'none'; script-src 'sha256-{digest}';" in policy
        assert isinstance(json.loads(data[1]), list) and not re.search("[<>&\u2028\u2029]", data[1])
        for tag, attributes in self.elements:
            assert tag not in {"link", "iframe", "object", "embed", "base", "form"}
            for name, value in attributes.items():
                assert not name.startswith("on")
                if name in {"src", "href"}:
                    assert value is not None and re.match(
                        r"#|figures/[a-z0-9_]+\.|[\w-]+/report\.html$", value
                    )
