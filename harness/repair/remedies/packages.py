"""The package that a missing module comes in. Only those of `packages.yaml`: a name that somebody made up, or
that means the author's own code, must not be fetched from anywhere."""

from harness.repair.remedies.tables import table
from harness.repair.remedies.types import Repair, Situation


def install_package(now: Situation) -> Repair | None:
    """Only with permission, and only into the experiment's own environment."""
    module = now.captured("module").strip("'\"` ")
    if "." in module:
        return (
            None  # what stands before the dot was found: another version of it is wanted, or it is shadowed
        )
    package = package_of(module) or package_of(now.captured("package"))
    if package is None or now.ask.refuses_install(package) is not None:
        return None
    return Repair(package=package)


def package_of(name: str) -> str | None:
    """The package that brings this module, or the one of this name; None where that is not known."""
    top = name.strip("'\"` ").partition(".")[0]
    own = {_flat(package): package for package in known_packages()}
    return table("packages").get(top) or own.get(_flat(top))


def _flat(name: str) -> str:
    """Names of packages do not differ by case, `-` or `_`."""
    return name.lower().replace("_", "-")


def known_packages() -> frozenset[str]:
    """Every package that may be installed."""
    return frozenset(table("packages").values())
