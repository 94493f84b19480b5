"""The package that a missing module comes in. Only those of `packages.yaml`: a name that somebody made up, or
that means the author's own code, must not be fetched from anywhere."""

from pathlib import Path

from harness.installation import own_table


def package_of(name: str) -> str | None:
    """The package that brings this module, or the one of this name; None where that is not known."""
    top = name.strip("'\"` ").partition(".")[0]
    own = {_flat(package): package for package in known_packages()}
    return _table().get(top) or own.get(_flat(top))


def known_packages() -> frozenset[str]:
    """Every package that may be installed."""
    return frozenset(_table().values())


def known_modules() -> frozenset[str]:
    """The modules of those packages."""
    return frozenset(_table())


def _flat(name: str) -> str:
    return name.lower().replace("_", "-")


def _table() -> dict[str, str]:
    """Module to package."""
    return dict(own_table(Path(__file__).with_name("packages.yaml")))
