"""`python -m tests.gateway.looking_often gateway ...`: `zkcoord gateway`, which looks for groups
that are split every second and not every 30 s, so that a test need not wait for that.
"""

from __future__ import annotations

import sys

from consumer.gateway.operation import direct_members
from zkcoord.cli.main import main

EVERY_S = 1.0

if __name__ == "__main__":
    direct_members.LOOK_EVERY_S = EVERY_S
    raise SystemExit(main(sys.argv[1:]))
