"""The two limits of `[exp_max_time]`."""

import pytest

from tests.harness.blueprint.reading import errors, read_text, section, warnings

DAY = 86400.0
ORIGINAL = """Default:
- MaxTime per run:
24 hours
- First step success timeout:
20 minutes (when you see the first kl loss value printed in tmux window, that means the first step is \
successful, if you did not see any kl loss value printed in tmux window after 20 minutes, that means the \
first step is failed)"""


SAID: dict[tuple[float, float], list[str]] = {
    (43200, 1200): [
        *("12 hours", "- time: 12 hours", "${MaxTime} = 12 hours", "最长运行时间为12小时。"),
        *("```\n12 hours\n```", "- time: 12 hours\n- hint: a run took 3 hours before"),
    ],
    (DAY, 1200): ["`24h`", "24 hours (1 day)", ORIGINAL, "NA", "默认", "Default: 24 hours", ""],
    (1800, 1200): ["- 时间：30分钟"],
    (5400, 1200): ["The run is killed after 90 minutes."],
    (10800, 1200): ["- MaxTime per run: 3 hours"],
    (7200, 300): ["- time: 2 hours\n- first step: 5 minutes"],
    (43200, 600): [
        "Max 12 hours, first step 10 minutes",
        "12 hours in all and 10 minutes for the first step",
    ],
    (2 * DAY, 600): ["First step success timeout: 10 minutes. Maximum runtime: 2 days."],
    (43200, 1800): ["首步超时30分钟，最长12小时"],
    (DAY, 600): ["- First step success timeout:\n  10 minutes"],
}


@pytest.mark.parametrize(("body", "limits"), [(body, limits) for limits in SAID for body in SAID[limits]])
def test_limits(body: str, limits: tuple[float, float]) -> None:
    blueprint = read_text(section("exp_max_time", body))
    assert errors(blueprint) == []
    assert (blueprint.max_time_s, blueprint.first_step_s) == limits


def test_in_the_heading() -> None:
    heading = "## [exp_purpose]\nx\n## [exp_max_time] Runtime is {0}; it is terminated after {0}\n"
    assert read_text(heading.format("3 hours")).max_time_s == 10800
    assert read_text(heading.format("${MaxTime}") + ORIGINAL).max_time_s == DAY


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        *((text, 5, "no unit") for text in ("12", "- time: 12", "12:00")),
        *((text, 5, "no length of time") for text in ("unlimited", "不限", "as long as it needs")),
        *((text, 5, "more than a year") for text in ("9000 days", "99999999999999999999 hours")),
        ("0 hours", 5, "0 seconds"),
        ("-5 hours", 5, "-18000 seconds"),
        ("12-24 hours", 5, "leaves the length open"),
        ("12 hours\n\n24 hours", 7, "two maximum times"),
        ("- time: 12 hours\n- max time: 1 day", 6, "two maximum times"),
        ("- content 1: 12 hours\n- content 2: 1 day", 6, "two maximum times"),
        ("12 hours, 20 minutes for the first step", 5, "one length, or"),
    ],
)
def test_doubt_is_an_error_with_its_line(body: str, line: int, words: str) -> None:
    found = errors(read_text(section("exp_max_time", body)))
    assert line in [number for number, _ in found]
    assert any(words in message for _, message in found)


def test_a_first_step_after_the_end_is_a_warning() -> None:
    blueprint = read_text(section("exp_max_time", "- time: 5 minutes\n- first step: 10 minutes"))
    assert [line for line, _ in warnings(blueprint)] == [6]
