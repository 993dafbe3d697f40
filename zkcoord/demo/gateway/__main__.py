"""`python -m zkcoord.demo.gateway`. Nothing heavy is imported before a Ctrl-C would be answered
with one line; the work begins in `command`.
"""

from __future__ import annotations

import sys


def main() -> int:
    """The exit status of `command.main`, 130 after a Ctrl-C while it was loaded or tidied up."""
    try:
        from zkcoord.demo.gateway import command

        return command.main()
    except KeyboardInterrupt:
        print("Interrupted: everything that was started is stopped.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
