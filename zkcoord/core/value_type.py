"""What a value is: a dataclass that nobody changes once it is made; and how a `match` over a union
of values ends.

A new coordinator makes some ten of them for every partition that there is. A frozen dataclass sets
each field through `object.__setattr__`, which takes several times as long as setting it; so values
are frozen for those who check types and while the tests run (`FREEZE`, set before anything else is
imported), and plain otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn, TypeVar

T = TypeVar("T")

FREEZE = False

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform  # typing has it from Python 3.11
else:

    def dataclass_transform(**_: object) -> Callable[[T], T]:
        """For type checkers only."""
        return lambda decorated: decorated


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """A dataclass with slots, equal by its fields and hashable where they are."""
    return dataclass(slots=True, frozen=FREEZE, unsafe_hash=not FREEZE)(cls)


def assert_never(unexpected: NoReturn) -> NoReturn:
    """The last case of a `match`: a type checker reports it where a case is missing. (The standard
    library has it from Python 3.11.) Raises `AssertionError`.
    """
    raise AssertionError(f"no case for {unexpected!r}")
