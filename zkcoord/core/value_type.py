"""What a value is: a dataclass that nobody changes once it is made; and how a `match` over a union
of values ends.

A new coordinator makes some ten of them for every partition that there is. A frozen dataclass sets
each field through `object.__setattr__`, which takes several times as long as setting it; so values
are frozen for those who check types and while the tests run (`FREEZE`, set before anything else is
imported), and plain otherwise.

And a process that starts makes hundreds of such classes, for each of which the standard library
writes and compiles some methods, most of which are never called before the process has done what it
was started for. So each is made when it is called first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, make_dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

T = TypeVar("T")

FREEZE = False
NONE_MADE: Mapping[str, Any] = {"init": False, "repr": False, "eq": False}
MADE_LATER: Mapping[str, Mapping[str, Any]] = {
    "__init__": {**NONE_MADE, "init": True},
    "__eq__": {**NONE_MADE, "eq": True},
    "__hash__": {**NONE_MADE, "unsafe_hash": True},
    "__repr__": {**NONE_MADE, "repr": True},
}
"""How a dataclass is asked for one method alone."""


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
    made = dataclass(slots=True, **NONE_MADE)(cls)
    for name in MADE_LATER:
        if name not in own:
            setattr(made, name, _made_later(made, name))
    return made


def _made_later(made: type[Any], name: str) -> Callable[..., Any]:
    """What gives its place to the method that the standard library would have written, and calls
    that.
    """

    def first(*args: Any, **named: Any) -> Any:
        wanted = [(one.name, object, _again(one)) for one in fields(made)]
        after = {key: vars(made)[key] for key in ("__post_init__",) if key in vars(made)}
        try:
            twin = make_dataclass("_", wanted, namespace=after, slots=True, **MADE_LATER[name])
        except RuntimeError as e:
            # what a signal handler raises while a class is made, as Python says it before 3.12
            raise e.__cause__ or e from None
        method = vars(twin)[name]
        setattr(made, name, method)
        return method(*args, **named)

    return first


def _again(one: Field[Any]) -> Any:
    """The same field for another class."""
    given: dict[str, Any] = {
        key: getattr(one, key)
        for key in ("default", "default_factory", "init", "repr", "hash", "compare", "kw_only")
    }
    return field(**given)


def assert_never(unexpected: NoReturn) -> NoReturn:
    """The last case of a `match`: a type checker reports it where a case is missing. (The standard
    library has it from Python 3.11.) Raises `AssertionError`.
    """
    raise AssertionError(f"no case for {unexpected!r}")
