"""`python -m zkcoord.consumer.spark.audit`. Nothing heavy is imported before a Ctrl-C would be
answered with one line; the work begins in `command`.
"""

from __future__ import annotations

import sys


def main() -> int:
    """The exit status of `command.main`, 130 after a Ctrl-C."""
    try:
        from consumer.spark.audit import command

        return command.main()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
