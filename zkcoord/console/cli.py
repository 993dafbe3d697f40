"""`zkcoord console`: what the coordinator knows, in a browser. It changes nothing, unless readers
may act.
"""

from __future__ import annotations

import argparse
import logging
import os
from contextlib import ExitStack
from functools import partial
from typing import Any

from zkcoord.cli.brokers import brokers
from zkcoord.config.settings import zk_options
from zkcoord.config.sources import Settings
from zkcoord.console.flags import (
    ActingSettings,
    acting_settings,
    add_acting_flags,
    add_watching_flags,
    folders,
    watching_settings,
)
from zkcoord.errors import ConfigurationError
from zkcoord.terminal import err, printable
from zkcoord.znodes.paths import layout_named

LISTEN = "127.0.0.1:9407"
BESIDE_NICE = 10
MISSING_EXTRA = (
    "zkcoord console needs starlette, uvicorn and jinja2: install them with pip install"
    " 'zkcoord[console]'"
)

EPILOG = """\
examples:
  zkcoord console --zookeeper zk1:2181/kafka
  # where a coordinator keeps its journal: timelines and reasons
  zkcoord console --zookeeper zk1:2181/kafka --journal-dir /var/lib/zkcoord/journal
  # for others, behind a proxy with TLS that sends Host: zkcoord.example.org
  zkcoord console --zookeeper zk1:2181/kafka --listen 0.0.0.0:9407 --http-names zkcoord.example.org

  # readers who sign in may act: rebalance, reset offsets, ...
  zkcoord console --zookeeper zk1:2181/kafka --actions-token-file /etc/zkcoord/console-tokens
  # or those whom a proxy at this address names, which has asked for their password
  zkcoord console --zookeeper zk1:2181/kafka --actions-user-header X-Forwarded-User \\
    --actions-proxies 127.0.0.1

Pages link to each other by relative addresses: a proxy may put them below any path that ends with a
slash. They are for people who may see every group: there are no passwords, so listen where only
they can come, or have the proxy ask for one. Without --actions-.. nothing can be changed by them.
SIGTERM or Ctrl-C ends it.
"""


def add_parser(subparsers: Any) -> None:
    """Add `console`."""
    parser = subparsers.add_parser(
        "console",
        help="a web page: which groups are well, who blocks, why a group was rebalanced",
        description="Serve pages that show every group. Reads only, unless --actions-.. is given.",
        epilog=EPILOG,
    )
    parser.add_argument(
        "--listen",
        default=LISTEN,
        metavar="ADDRESS:PORT",
        help=f"where browsers come (default: {LISTEN}; port 0: a free one)",
    )
    parser.add_argument(
        "--http-names",
        default="",
        metavar="NAME,...",
        help="names that this console has, beside localhost and addresses; others are not answered",
    )
    add_acting_flags(parser)
    parser.add_argument("--with-parent", action="store_true", help=argparse.SUPPRESS)
    add_watching_flags(parser)


def run(args: argparse.Namespace) -> int:
    """0 after a signal; what cannot be done is raised (`ZkcoordError`)."""
    try:
        import jinja2  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise ConfigurationError(MISSING_EXTRA) from None
    return _serve(args, watching_settings(args), acting_settings(args))


def _serve(args: argparse.Namespace, settings: Settings, acting: ActingSettings | None) -> int:
    from zkcoord.console.acting.setting_up import acting_at
    from zkcoord.console.asking import GroupAsker
    from zkcoord.console.checking import Checker
    from zkcoord.console.ensemble import ServersAsker
    from zkcoord.console.happenings import Happenings
    from zkcoord.console.http.guarding import Guarded
    from zkcoord.console.http.live import Newsroom
    from zkcoord.console.http.serving import end_with_parent, listener, parse_listen, server
    from zkcoord.console.http.web import ConsoleAddresses, application
    from zkcoord.console.pages import Pages
    from zkcoord.console.replaying import Replayer
    from zkcoord.console.troubles import Troubles
    from zkcoord.console.watching import Watcher
    from zkcoord.coordinator.http.host_names import HostNames

    logging.basicConfig(level=logging.WARNING, format="zkcoord console: %(message)s")
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    layout, options = layout_named(settings.text("layout")), zk_options(settings)
    names = HostNames([name for name in args.http_names.split(",") if name])
    socket = listener(*parse_listen(args.listen))
    newsroom = Newsroom()
    with ExitStack() as stack:
        stack.callback(socket.close)

        def heard(groups: frozenset[str]) -> None:
            troubles.heard(groups)
            newsroom.tell(groups)

        happenings = Happenings(folders(args), heard)
        troubles = Troubles(happenings, layout)
        watcher = Watcher(
            options,
            layout,
            partial(brokers, settings, layout=layout),
            args.interval_ms,
            lambda _: newsroom.tell(),
            troubles,
        )
        asker = GroupAsker(options, layout)
        checker = Checker(options, layout, newsroom.tell)
        stack.callback(checker.close)
        stack.callback(asker.close)
        for thread in (happenings, watcher):
            stack.callback(thread.close)
            thread.start()
        replayer = Replayer(folders(args), os.environ)
        stack.callback(replayer.close)
        pages = Pages(
            lambda: watcher.picture,
            happenings,
            asker,
            checker,
            settings.text("zookeeper"),
            acting is not None,
            replayer,
            ServersAsker(options),
        )
        addresses = ConsoleAddresses(pages, newsroom)
        host, port = socket.getsockname()[:2]
        at = acting_at(acting, settings, pages, port, stack) if acting is not None else None
        app = application(addresses, newsroom, at)
        serving = server(Guarded(app, names, at is not None), addresses.end)
        shown = f"[{host}]" if ":" in host else host
        err(f"zkcoord console: http://{printable(shown)}:{port}/ (Ctrl-C ends it)\n")
        if args.with_parent:
            os.nice(BESIDE_NICE)  # the coordinator's machine is the coordinator's first
            end_with_parent(serving)
        serving.run(sockets=[socket])
    return 0
