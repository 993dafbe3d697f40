"""`python -m zkcoord.guardian`: see `cli`."""

from __future__ import annotations

import sys

from zkcoord.guardian.cli import main

if __name__ == "__main__":
    sys.exit(main())
