"""The schema as a page: `python -m trainer_core.config.document docs/configuration.md` renews its tables."""

import sys
from pathlib import Path

from trainer_core.config.keys import Key, all_keys, shown_default
from trainer_core.config.support import note

BEGIN = "<!-- keys: written by `python -m trainer_core.config.document`, not by hand -->"
END = "<!-- end of keys -->"


def with_key_tables(page: str) -> str:
    """The page with everything between BEGIN and END replaced by the current tables.

    Raises ValueError if the page lacks the two marks.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page needs the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{key_tables()}\n{END}{after}"


def key_tables() -> str:
    """One Markdown table per section of the schema, in the schema's order."""
    parts = []
    for section in ("", *(path for path, key in all_keys().items() if key.is_section)):
        below = (key for key in all_keys().values() if key.path.rpartition(".")[0] == section)
        if rows := [_row(key) for key in below if not key.is_section]:
            meaning = all_keys()[section].description if section else "The top of the file."
            heads = ["| key | allowed | default | meaning | on `local` |", "|---|---|---|---|---|"]
            title = f"### {f'`{section}`' if section else 'Top level'}"
            parts.append("\n".join([title, "", meaning, "", *heads, *rows, ""]))
    return "\n".join(parts)


def _row(key: Key) -> str:
    cells = (f"`{key.name}`", key.type, f"`{shown_default(key)}`", key.description, note(key))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def renew(page: Path) -> None:
    """Renew the tables of the page."""
    page.write_text(with_key_tables(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    renew(Path(sys.argv[1]))
