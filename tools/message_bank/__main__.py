"""The command line: `python -m tools.message_bank --cache DIR` makes the bank from the sources of libraries;
without `--cache` the messages of the bank that is there get their reviewed families."""

import argparse
import gc
import warnings
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from harness.diagnosis.message_bank import KnownMessage, shipped, shipped_file
from tools.message_bank.extraction import Found, messages
from tools.message_bank.families import Families
from tools.message_bank.merging import merged, reviewed
from tools.message_bank.packing import write
from tools.message_bank.sources import Release, fetch, read, releases, standard_library


def main() -> None:
    made = argparse.ArgumentParser(prog="python -m tools.message_bank", description=__doc__)
    made.add_argument("--cache", type=Path, help="folder for the downloaded releases")
    made.add_argument("--out", type=Path, default=shipped_file(), help="file to write")
    made.add_argument("--jobs", type=int, default=2, help="processes that read sources")
    options = made.parse_args()
    if options.cache is None:
        bank = shipped()
        kept, versions = reviewed(bank.messages(), Families()), bank.versions
    else:
        kept, versions = _of_sources(options.cache, options.jobs)
    write(kept, versions, options.out)
    for family, count in Counter(each.places[0].family for each in kept).most_common():
        print(f"{family}: {count}")
    print(f"{len(kept)} messages of {len(versions)} libraries, {options.out.stat().st_size / 1e6:.2f} MB")


def _of_sources(cache: Path, jobs: int) -> tuple[list[KnownMessage], Mapping[str, Sequence[str]]]:
    """The messages of all releases, and the versions by library."""
    archives = fetch(releases(), cache)
    found: list[Found] = []
    versions: dict[str, list[str]] = defaultdict(list)
    with ProcessPoolExecutor(jobs) as pool:
        for library, version, files, here in pool.map(_of_release, [*archives, None]):
            print(f"{library} {version}: {files} files, {len(here)} messages")
            versions[library].append(version)
            found += here
    return merged(found, versions, Families()), versions


def _of_release(item: tuple[Release, Path] | None) -> tuple[str, str, int, list[Found]]:
    """What a release (None: the standard library) says; its sources are parsed without running anything."""
    gc.disable()  # syntax trees have no cycles, and walking them costs more than they do
    warnings.simplefilter("ignore", SyntaxWarning)
    files, found, library, version = 0, list[Found](), "", ""
    for source in read(*item) if item is not None else standard_library():
        files, library, version = files + 1, source.library, source.version
        found += messages(source)
    return library, version, files, found


if __name__ == "__main__":
    main()
