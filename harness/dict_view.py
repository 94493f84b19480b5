"""Temporary: typed values that can still be read as dictionaries, until every reader uses their fields."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any


class DictView(Mapping[str, Any]):
    """A dataclass that can be subscripted; a field that is "" or None does not count as there."""

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None

    def __contains__(self, name: object) -> bool:
        return getattr(self, str(name), None) not in ("", None)

    def get(self, name: str, default: Any = None) -> Any:
        found = getattr(self, name, None)
        return default if found in ("", None) and default is not None else found

    def as_json(self) -> dict[str, Any]:
        """Temporary."""
        from harness.journal.codec import encode

        found: dict[str, Any] = encode(self)
        return found

    def __iter__(self) -> Iterator[str]:
        return (field.name for field in fields(self) if field.name != "action")  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(fields(self))  # type: ignore[arg-type]
