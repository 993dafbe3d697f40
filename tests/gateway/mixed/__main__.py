"""`python -m tests.gateway.mixed`."""

from __future__ import annotations

import sys

from tests.gateway.mixed.command import main

if __name__ == "__main__":
    sys.exit(main())
