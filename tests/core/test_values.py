"""Values are not changed: the tests run with frozen ones, production with equal ones that cost less
to make.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import Field, FrozenInstanceError, field, replace
from typing import NoReturn, cast

import pytest

from zkcoord.core import value_type
from zkcoord.core.model import Owner, Thread
from zkcoord.zk.port import GetData


def test_values_are_frozen_while_the_tests_run() -> None:
    assert value_type.FREEZE
    with pytest.raises(FrozenInstanceError):
        GetData("/a").path = "/b"  # type: ignore[misc]


def test_values_are_equal_and_hashable_either_way() -> None:
    text = (
        "from zkcoord.core.model import Owner, Thread; a, b = (Owner(1, Thread('m', 0), 1) for _ in"
        " range(2)); assert a == b and len({a, b}) == 1 and not hasattr(a, '__dict__'); print(a)"
    )
    plain = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert (
        plain == str(Owner(1, Thread("m", 0), 1))
        and len({Owner(1, Thread("m", 0), 1), Owner(1, Thread("m", 0), 1)}) == 1
    )


@pytest.mark.parametrize("freeze", [True, False])
def test_a_value_has_slots_and_a_hash_either_way(
    freeze: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_type, "FREEZE", freeze)

    @value_type.value
    class Place:
        row: int

    assert not hasattr(Place(3), "__dict__")
    assert len({Place(3), Place(3), Place(4)}) == 2
    place = Place(3)
    if freeze:
        with pytest.raises(FrozenInstanceError):
            place.row = 4  # type: ignore[misc]
    else:  # what this saves when one is made
        place.row = 4  # type: ignore[misc]


@pytest.mark.parametrize("first", ["__init__", "__eq__", "__hash__", "__repr__"])
def test_methods_that_are_made_later_are_the_standard_librarys(
    first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_type, "FREEZE", False)

    @value_type.value
    class Place:
        row: int
        seats: tuple[int, ...] = ()
        note: str = field(default="", compare=False, repr=False)

    asked = {
        "__init__": lambda: Place(seats=(2,), row=1).row == 1 and Place(1).seats == (),
        "__eq__": lambda: Place(1, (2,), "a") == Place(1, (2,), "b"),
        "__hash__": lambda: hash(Place(1, (2,), "a")) == hash(Place(1, (2,), "b")),
        "__repr__": lambda: repr(Place(1, (2,), "a")).endswith("Place(row=1, seats=(2,))"),
    }
    maker = vars(Place)[first]
    assert vars(Place)[first] is maker and asked[first]()
    made = vars(Place)[first]
    assert made is not maker and asked[first]() and vars(Place)[first] is made, "made once"
    for ask in asked.values():
        assert ask()
    assert Place(1) != Place(2) and Place(1) != 1 and Place(1).__eq__(1) is NotImplemented


def test_what_a_signal_handler_raises_while_a_method_is_made_comes_out_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python before 3.12 says it as a RuntimeError. The next call makes the method."""
    monkeypatch.setattr(value_type, "FREEZE", False)

    @value_type.value
    class Place:
        row: int

    class Stop(BaseException):
        """What the handler raises."""

    def interrupted(*_: object) -> NoReturn:
        raise Stop

    with monkeypatch.context() as signal:
        signal.setattr(Field, "__set_name__", interrupted)
        with pytest.raises(Stop):
            Place(3)
    assert Place(3).row == 3


def test_values_of_other_classes_are_not_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_type, "FREEZE", False)

    @value_type.value
    class Begun:
        at: int

    @value_type.value
    class Ended:
        at: int

    assert Begun(1) != Ended(1) and Ended(1) != Begun(1) and len({Begun(1), Ended(1)}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(Begun([1]))  # type: ignore[arg-type]


def test_what_is_done_after_the_fields_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_type, "FREEZE", False)

    @value_type.value
    class Share:
        percent: int
        names: list[str] = field(default_factory=list)
        whole: int = field(init=False, default=100)

        def __post_init__(self) -> None:
            if self.percent > self.whole:
                raise ValueError(self.percent)

    for _ in range(2):
        with pytest.raises(ValueError, match="101"):
            Share(101)
        assert Share(7).names is not Share(7).names and replace(Share(7), percent=8) == Share(8)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'percent'"):
        Share()  # type: ignore[call-arg]


def test_a_method_of_the_class_itself_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_type, "FREEZE", False)

    @value_type.value
    class Secret:
        text: str

        def __repr__(self) -> str:
            return "Secret(...)"

    assert repr(Secret("x")) == "Secret(...)" and Secret("x") == Secret("x")


def test_a_case_that_is_missing_is_an_error_that_names_it() -> None:
    with pytest.raises(AssertionError, match="no case for 'unheard of'"):
        value_type.assert_never(cast(NoReturn, "unheard of"))
