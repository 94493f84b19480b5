"""A report page as a test reads it."""

from html.parser import HTMLParser

VOID = {"meta", "br", "wbr"}


class Page(HTMLParser):
    """The elements, attributes and text of a page; fails on tags that do not close. `open`: those that are
    open now, with their class."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.numbers: dict[str, str] = {}
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
        self.text.append(data)
        if self._fact:
            self.numbers[self._fact] = data
