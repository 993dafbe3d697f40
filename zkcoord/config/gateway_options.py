"""The options of `zkcoord gateway` alone, a section of the table (`zkcoord.config.options`)."""

from __future__ import annotations

from zkcoord.config.decision_options import HOUR_MS
from zkcoord.config.option_spec import Use, number, switch, text

GATEWAY = (
    text(
        "brokers",
        None,
        "brokers to begin with, as clients would name them; all others are found through these",
        (Use.GATEWAY,),
        metavar="HOST:PORT,...",
    ),
    text(
        "listen",
        "127.0.0.1:9192",
        "where clients begin; broker n is reached at this port + 1 + n",
        (Use.GATEWAY,),
        metavar="HOST:PORT",
    ),
    text(
        "advertise",
        None,
        "the host that clients are told, where it is not the one of --listen",
        (Use.GATEWAY,),
        metavar="HOST",
    ),
    text(
        "broker_ports",
        None,
        "other ports for some brokers, as 1001=9201,1002=9202",
        (Use.GATEWAY,),
        metavar="ID=PORT,...",
    ),
    switch("listen_tls", False, "clients reach the gateway by TLS, 1.2 or newer", (Use.GATEWAY,)),
    text(
        "listen_tls_cert_file",
        None,
        "PEM file of the certificate that clients see, with the chain to its authority",
        (Use.GATEWAY,),
        metavar="PATH",
    ),
    text(
        "listen_tls_key_file",
        None,
        "PEM file of its key, where it is not in the certificate's file",
        (Use.GATEWAY,),
        metavar="PATH",
    ),
    text(
        "listen_tls_key_password",
        None,
        "the key's password",
        (Use.GATEWAY,),
        secret=True,
        metavar="PASSWORD",
    ),
    text(
        "listen_tls_ca_file",
        None,
        "PEM file of authorities: clients are asked for a certificate of theirs",
        (Use.GATEWAY,),
        metavar="PATH",
    ),
    text(
        "listen_tls_client_auth",
        "required",
        "with listen_tls_ca_file: whether those without a certificate are turned away",
        (Use.GATEWAY,),
        ("required", "requested"),
    ),
    text(
        "broker_hosts",
        None,
        "one port for all brokers: the host name of the TLS handshake says which; {broker} stands"
        " for a broker's id",
        (Use.GATEWAY,),
        metavar="b{broker}.DOMAIN",
    ),
    text(
        "coordinated_groups",
        None,
        "regular expressions of the groups that are coordinated (the whole name; separated by"
        " blanks); all others go to Kafka's own coordinator. Without it: all groups",
        (Use.GATEWAY,),
        metavar="REGEX ...",
    ),
    text(
        "offsets_in_kafka",
        None,
        "regular expressions of the coordinated groups whose offsets Kafka keeps, so that"
        " transactions can store them (the whole name; separated by blanks): clients lead these."
        " Without it: none",
        (Use.GATEWAY,),
        metavar="REGEX ...",
    ),
    number(
        "group_min_session_timeout_ms",
        6_000,
        "the shortest session timeout that a client may ask for",
        1,
        HOUR_MS,
        (Use.GATEWAY,),
        "MS",
    ),
    number(
        "group_max_session_timeout_ms",
        1_800_000,
        "the longest",
        1,
        24 * HOUR_MS,
        (Use.GATEWAY,),
        "MS",
    ),
    number(
        "disconnect_grace_ms",
        1_000,
        "a client whose connection is gone and does not come back within this time has left",
        0,
        HOUR_MS,
        (Use.GATEWAY,),
        "MS",
    ),
    number(
        "member_grace_ms",
        10_000,
        "how long a client's partitions wait for it to come to another gateway when this one is"
        " stopped or lost",
        0,
        HOUR_MS,
        (Use.GATEWAY,),
        "MS",
    ),
    switch(
        "gateways_in_metadata",
        True,
        "name the other gateways to clients, as brokers without partitions",
        (Use.GATEWAY,),
    ),
)
