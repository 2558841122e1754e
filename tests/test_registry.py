"""Parts by name, and the options that they bring."""

import pytest

from fairseq_groc.errors import OptionError
from fairseq_groc.registry import Option, Registry


class Part:
    options = {"size": Option(3, "", "count")}


@pytest.fixture
def registry():
    return Registry("part")


def test_a_class_under_two_names_takes_what_each_name_brings(registry):
    registry.decorator("first", {})(Part)
    registry.decorator("second", {"rate": Option(0.5, "", "weight")})(Part)
    made = type("Made", (Part,), {})
    registry.decorator("third", {"depth": Option(1, "", "natural")})(made)
    registry.decorator("fourth", {}, implied=lambda cls: {"width": Option(2, "", "count")})(type("MadeAgain", (made,), {}))
    assert {name: list(taken) for name, taken in registry.taken.items()} == {
        "first": ["size"],
        "second": ["size", "rate"],
        "third": ["size", "depth"],
        "fourth": ["width", "size", "depth"],
    }
    assert set(registry.options) == {"size", "rate", "depth", "width"} and list(Part.options) == ["size"]


@pytest.mark.parametrize("option", [Option("a", ""), Option(True, ""), Option(1.5, "", "weight"), Option([1.5], "", "counts")])
def test_a_default_that_its_option_does_not_take_is_refused(registry, option):
    with pytest.raises(OptionError, match="--x .*: expected a "):
        registry.add("part", Part, {"x": option})
    assert not registry and not registry.options


@pytest.mark.parametrize(
    "option, value, refused",
    [
        (Option(1, "", "count"), 2.5, True),
        (Option(1.0, "", "factor"), 2, False),
        (Option([2, 3], "", "counts"), [2, 0], False),
        (Option([2, 3], "", "counts"), [1.5], True),
        (Option([2, 3], "", "counts"), [0, 0], True),
        (Option("a", "", ("a", "b")), "c", True),
    ],
)
def test_values(option, value, refused):
    assert bool(option.refusal(value)) == refused
