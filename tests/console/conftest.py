"""One browser for all tests that look at pages in one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.console.browser import Browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = Browser()
    yield found
    found.driver.quit()
