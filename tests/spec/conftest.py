"""TLC, where it can run."""

from __future__ import annotations

import pytest

from tests.spec import tlc
from zkcoord.errors import StackError


def _missing() -> str:
    """Why TLC cannot run here; "": it can."""
    try:
        tlc.java_for_tlc()
        tlc.tla_jar()
    except StackError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def model_checker() -> None:
    """TLC is there, or the test is left out."""
    if why := _missing():
        pytest.skip(why)
