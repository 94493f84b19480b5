"""The packages: what the program imports is installed, and versions that cannot work together are not."""

import re
from collections.abc import Iterator
from pathlib import Path

from harness.doctor.interpreter_probe import Probe, ProbeError
from harness.doctor.launch import PlannedLaunch
from harness.doctor.sources import FLASH_ATTENTION
from harness.doctor.types import Finding, fine, problem, warning
from harness.repair.remedies.packages import package_of

_ENFORCED = {
    "torchvision": ("torch",),
    "torchaudio": ("torch",),
    "xformers": ("torch",),
    "vllm": ("torch",),
    "transformers": ("tokenizers", "huggingface-hub", "safetensors", "numpy"),
}
"""Requirements that do not work when broken: compiled against it, or tested when it is imported."""


def modules(launch: PlannedLaunch) -> Iterator[Finding]:
    """Every module that the program imports at its top is there, in the training's own interpreter."""
    probe, wanted = launch.probe(), launch.wanted()
    if isinstance(probe, ProbeError) or not wanted.modules:
        return
    missing = [name for name in wanted.modules if not probe.modules.get(name)]
    for name in missing:
        text = f"{wanted.modules[name]} imports {name}, which {launch.python} does not find"
        mend = _how_to_mend(launch.python, name)
        if wanted.changes_path or launch.prepares:
            yield warning(text, f"{mend}, unless it is put in place before the import", "module_not_found")
        else:
            yield _mended(launch, problem(text, mend, "module_not_found"), name)
    if not missing:
        yield fine(f"{len(wanted.modules)} imported package(s) are installed")


def _how_to_mend(python: Path, module: str) -> str:
    """A package is named only where it is known: somebody else may have put anything under the module's
    name."""
    package = package_of(module)
    if package is not None:
        return f"install it there: `{python} -m pip install {package}`"
    return "install the package that brings it; if it is your own code, put its folder on PYTHONPATH"


def _mended(launch: PlannedLaunch, found: Finding, module: str) -> Finding:
    """The finding with its repair: the setting that asks for the module, else its package, installed where
    the training runs."""
    if launch.wanted().modules[module].startswith(FLASH_ATTENTION):
        return found.mended_by("without_flash_attention")
    if launch.python == Path(launch.plan["venv_exe"]):
        return found.mended_by("install_package", module=module)
    return found


def versions(launch: PlannedLaunch) -> Iterator[Finding]:
    """Versions that are known not to work together."""
    probe = launch.probe()
    if isinstance(probe, ProbeError):
        return
    found = [*_numpy_and_torch(probe), *_broken_requirements(probe)]
    yield from found
    if not found and probe.packages:
        yield fine(f"versions of {', '.join(sorted(probe.packages))} fit each other")


def _numpy_and_torch(probe: Probe) -> Iterator[Finding]:
    numpy, torch = probe.packages.get("numpy"), probe.packages.get("torch")
    if numpy and torch and _numbers(numpy.version) >= (2,) and _numbers(torch.version) < (2, 3):
        yield warning(
            f"numpy {numpy.version} with torch {torch.version}, which was built for NumPy 1",
            "install 'numpy<2', or torch 2.3 or newer",
            "binary_abi",
        )


def _broken_requirements(probe: Probe) -> Iterator[Finding]:
    from packaging.requirements import InvalidRequirement, Requirement

    for name, targets in _ENFORCED.items():
        package = probe.packages.get(name)
        for text in package.requires if package else ():
            try:
                needed = Requirement(text)
            except InvalidRequirement:
                continue
            there = probe.packages.get(needed.name.lower().replace("_", "-"))
            if needed.name.lower().replace("_", "-") not in targets or there is None or needed.marker:
                continue
            if not needed.specifier.contains(there.version, prereleases=True):
                assert package is not None
                yield warning(
                    f"{name} {package.version} needs {needed.name}{needed.specifier}, not {there.version}",
                    f"install `{needed.name}{needed.specifier}`, or a {name} that fits",
                    "binary_abi" if needed.name == "torch" else "version_skew",
                )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])
