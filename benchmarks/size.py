"""Lines, files and public names of every room, beside its budget.

`python benchmarks/size.py` counts the working tree, `--at REVISION` a commit of it. A room is a folder of
`harness/`; files directly in it are the room `core`. Lines are lines of Python as `wc -l` counts them; public
names are the top-level classes, functions and constants without a leading underscore.
"""

import argparse
import ast
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

BUDGET = {
    "core": 1_900,
    "command": 700,
    "config": 850,
    "machine": 350,
    "blueprint": 2_000,
    "agent": 2_900,
    "guard": 800,
    "repair": 1_300,
    "author": 800,
    "providers": 1_700,
    "diagnosis": 2_900,
    "lessons": 200,
    "doctor": 1_900,
    "results": 5_600,
    "sweep": 3_600,
    "cli": 2_500,
}
"""Lines of Python per room; `core` counts the journal, `results` one run, several runs and `verify`."""
IN_CORE = ("journal",)
TOTAL = {"harness": 30_000, "tests of harness": 26_000, "monitors": 5_000, "trainer_core": 12_000}
TESTS_OF_OTHERS = ("tests/monitors/", "tests/trainer_core/")


def sources(revision: str | None) -> Iterator[tuple[PurePosixPath, str]]:
    """Path and text of every Python file that git knows, in the working tree or at a revision."""
    if revision is None:
        listed = _git("ls-files", "--cached", "--others", "--exclude-standard", "*.py")
    else:
        listed = _git("ls-tree", "-r", "--name-only", revision)
    for name in listed.splitlines():
        path = PurePosixPath(name)
        if path.suffix != ".py":
            continue
        if revision is not None:
            yield path, _git("show", f"{revision}:{name}")
            continue
        try:
            with open(name, encoding="utf-8") as file:  # noqa: PTH123
                yield path, file.read()
        except FileNotFoundError:  # deleted and not committed yet
            continue


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout


def room_of(path: PurePosixPath) -> str | None:
    """The room of `harness/` that a file belongs to; None for files elsewhere."""
    if path.parts[0] != "harness":
        return None
    return "core" if len(path.parts) == 2 or path.parts[1] in IN_CORE else path.parts[1]


def package_of(path: PurePosixPath) -> str:
    """The package whose total counts this file."""
    if path.parts[0] != "tests":
        return path.parts[0]
    return "other tests" if str(path).startswith(TESTS_OF_OTHERS) else "tests of harness"


def public_names(text: str) -> int:
    """How many top-level names a module offers."""
    names = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return sum(not name.startswith("_") for name in names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at", metavar="REVISION", help="count this commit and not the working tree")
    lines, files, names, totals = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    largest: list[tuple[int, str]] = []
    for path, text in sources(parser.parse_args().at):
        count = text.count("\n")
        totals[package_of(path)] += count
        room = room_of(path)
        if room is not None:
            lines[room] += count
            files[room] += 1
            names[room] += public_names(text)
            largest.append((count, str(path)))
    print(f"{'room of harness':<18}{'lines':>8}{'budget':>8}{'files':>7}{'public names':>14}")
    for room in sorted(lines, key=lambda room: -lines[room]):
        print(f"{room:<18}{lines[room]:>8,}{BUDGET.get(room, 0):>8,}{files[room]:>7}{names[room]:>14}")
    print(f"{'all':<18}{lines.total():>8,}{TOTAL['harness']:>8,}{files.total():>7}{names.total():>14}\n")
    for package, count in totals.most_common():
        print(f"{package:<18}{count:>8,}{TOTAL.get(package, 0):>8,}")
    print("\nlargest files: " + ", ".join(f"{path} {count}" for count, path in sorted(largest)[:-6:-1]))


if __name__ == "__main__":
    main()
