"""What a value is: a dataclass that nobody changes once it is made; and how a `match` over a union
of values ends.

A new coordinator makes some ten of them for every partition that there is. A frozen dataclass sets
each field through `object.__setattr__`, which takes several times as long as setting it; so values
are frozen for those who check types and while the tests run (`FREEZE`, set before anything else is
imported), and plain otherwise.

And a process that starts makes hundreds of such classes, each of which has its methods written and
compiled by the standard library, most of which are never called before the process has done what it
was started for. So all but the first, `__init__`, are made when they are called first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, make_dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

T = TypeVar("T")

FREEZE = False
MADE_LATER = ("__eq__", "__hash__", "__repr__")

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform  # typing has it from Python 3.11
else:

    def dataclass_transform(**_: object) -> Callable[[T], T]:
        """For type checkers only."""
        return lambda decorated: decorated


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """A dataclass with slots, equal by its fields and hashable where they are."""
    if FREEZE:
        return dataclass(slots=True, frozen=True)(cls)
    own = vars(cls)
    made = dataclass(slots=True, eq=False, repr=False)(cls)
    for name in MADE_LATER:
        if name not in own:
            setattr(made, name, _made_later(made, name))
    return made


def _made_later(made: type[Any], name: str) -> Callable[..., Any]:
    """What gives its place to the method that the standard library would have written, and calls
    that.
    """

    def first(*args: Any) -> Any:
        wanted = [
            (one.name, object, field(compare=one.compare, hash=one.hash, repr=one.repr))
            for one in fields(made)
        ]
        method = vars(make_dataclass("_", wanted, init=False, unsafe_hash=True))[name]
        setattr(made, name, method)
        return method(*args)

    return first


def assert_never(unexpected: NoReturn) -> NoReturn:
    """The last case of a `match`: a type checker reports it where a case is missing. (The standard
    library has it from Python 3.11.) Raises `AssertionError`.
    """
    raise AssertionError(f"no case for {unexpected!r}")
