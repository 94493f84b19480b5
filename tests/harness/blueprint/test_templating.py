"""The template loader."""

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from harness import templating


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError):
        templating.render("blueprints/grpo.md.j2", name="x")


def test_only_html_is_escaped() -> None:
    loaded = templating.environment()
    template = "{{ value }}"
    loaded_html = loaded.overlay(loader=jinja2.DictLoader({"a.html.j2": template, "a.md.j2": template}))
    assert loaded_html.get_template("a.html.j2").render(value="<b>") == "&lt;b&gt;"
    assert loaded_html.get_template("a.md.j2").render(value="<b>") == "<b>"


WORDS = st.text(alphabet=st.characters(exclude_categories=("Cs", "Cc")))


@given(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), WORDS))
def test_the_yaml_filter_writes_what_yaml_reads(value: object) -> None:
    assert YAML(typ="safe").load(f"a: {templating.yaml_scalar(value)}\n") == {"a": value}
