"""The package that a missing module comes in. Only those of `packages.yaml`: a name that somebody made up, or
that means the author's own code, must not be fetched from anywhere."""

from harness.repair.remedies.situation import Repair, Situation
from harness.repair.remedies.tables import table


def install_package(now: Situation) -> Repair | None:
    """Only with permission, and only into the experiment's own environment."""
    module = now.captured("module").strip("'\"` ")
    if "." in module:  # what stands before the dot was found: another version is wanted, or it is shadowed
        return None
    package = package_of(module) or package_of(now.captured("package"))
    return Repair(package=package) if package is not None and now.machine.may_install(package) else None


def package_of(name: str) -> str | None:
    """The package that brings this module, or the one of this name; None where that is not known."""
    top = name.strip("'\"` ").partition(".")[0]
    own = {package.lower().replace("_", "-"): package for package in known_packages()}
    return table("packages").get(top) or own.get(top.lower().replace("_", "-"))


def known_packages() -> frozenset[str]:
    """Every package that may be installed."""
    return frozenset(table("packages").values())
