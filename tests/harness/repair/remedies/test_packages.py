"""Modules and the packages that bring them."""

import pytest

from harness.repair.remedies.packages import known_packages, package_of
from tests.harness.repair.remedies.samples import remedy, situation


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("cv2", "opencv-python-headless"),
        ("sklearn.metrics", "scikit-learn"),
        ("'yaml'", "PyYAML"),
        ("PIL.Image", "pillow"),
        ("Python_DotEnv", "python-dotenv"),
        ("utils", None),
        ("my_reward", None),
        ("torch", None),
        ("flash_attn", None),
        ("", None),
    ],
)
def test_only_what_is_known_is_fetched(module: str, package: str | None) -> None:
    assert package_of(module) == package


def test_it_needs_permission() -> None:
    now = situation(captures={"module": "cv2"})
    found = remedy("install_package", now)
    assert found is not None and found.package == "opencv-python-headless" and found.kind == "install"
    refused = situation(captures={"module": "cv2"}, facts={"refuses_install": lambda package: "no"})
    assert remedy("install_package", refused) is None


@pytest.mark.parametrize("module", ["tqdm.contrib.nosuch", "'redis.evil'", "PIL.Image"])
def test_not_for_a_part_of_a_package_that_was_found(module: str) -> None:
    assert remedy("install_package", situation(captures={"module": module, "package": "tqdm"})) is None


def test_names_carry_no_version() -> None:
    assert all(name.replace("-", "").replace("_", "").replace(".", "").isalnum() for name in known_packages())
