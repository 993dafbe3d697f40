"""The table of rights and the texts that name principals, without a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from kazoo.security import make_digest_acl_credential

from tests.security.principals import ROLES, hashed
from tests.security.test_matrix import cells
from zkcoord.core.model import TopicPartition
from zkcoord.errors import ConfigurationError
from zkcoord.zk.acl.audit import judge
from zkcoord.zk.acl.table import ALL, MATRIX, Principal, letters, members_may, roles
from zkcoord.zk.port import OPEN_ACL, AclEntry, Check, Create, acl_bytes
from zkcoord.znodes.paths import CONSUMERS, Layout

NAMES = ("coordinators", "members", "readers")
TP = TopicPartition("orders", 3)
BOTH = (Layout.DRAFT, Layout.ISOLATED)
ONE, TWO = (f"digest:{make_digest_acl_credential('c', f'secret{n}')}" for n in (1, 2))
DOCS = Path(__file__).parents[2] / "docs" / "security.md"


@pytest.mark.parametrize("layout", BOTH, ids=lambda layout: layout.name)
def test_members_prove_claim_and_commit_and_cannot_command(layout: Layout) -> None:
    """By the builders that the product uses."""
    for path, may in (
        (layout.leader, "r"),
        (layout.epoch, "r"),
        (layout.asks, "rcd"),
        (layout.ask("g"), "r"),
        (layout.group("g"), "r"),
        (layout.mode("g"), "r"),
        (layout.ids("g"), "rcd"),
        (layout.registration("g", "m"), "r"),
        (layout.channels("g"), "rc"),
        (layout.channel("g", "m"), "rd"),
        (layout.command("g", "m", "7-1-0000000000"), "r"),
        (layout.command_prefix("g", "m", 7, 1), "r"),
        (layout.owners("g"), "rc"),
        (layout.owner_topic("g", "orders"), "rcd"),
        (layout.owner("g", TP), "rw"),
        (layout.requests("g"), "r"),
        (layout.request_prefix("g"), "r"),
        (layout.publications("g"), "rcd"),
        (layout.publication("g", "1-1"), "r"),
        (layout.replayed_plans("g"), "rcd"),
        (layout.replayed_plan("g", 1, 1), "rw"),
        (layout.offsets("g"), "rc"),
        (layout.offset_topic("g", "orders"), "rwc"),
        (layout.offset("g", TP), "rw"),
        (CONSUMERS, "r"),
        (f"{CONSUMERS}/g", "r"),
        (layout.rescue("g"), "r"),
        ("/brokers/topics/orders", "r"),
        ("/", "r"),
        ("/zkcoord", "r"),
    ):
        assert members_may(path) == may, path


def test_every_place_has_an_acl_of_one_size_and_coordinators_may_do_everything() -> None:
    for rule in MATRIX:
        for layout in BOTH:
            acl = ROLES.acl(rule.path(layout))
            assert acl_bytes(acl) == acl_bytes(ROLES.widest)
            assert [letters(entry.perms) for entry in acl][::2] == [ALL, "r"]


def test_what_is_created_gets_the_acl_of_its_place_whatever_the_caller_said() -> None:
    path = Layout.DRAFT.owner("g", TP)
    check = Check("/x", 0)
    assert ROLES.applied([check, Create(path, b"", acl=OPEN_ACL)]) == [
        check,
        Create(path, b"", acl=ROLES.acl(path)),
    ]


def test_texts_name_principals() -> None:
    app = f"digest:{hashed('app')}"
    found = roles("sasl:coord; x509:CN=a,O=shop", app, "world:anyone", NAMES)
    assert found.coordinators == (Principal("sasl", "coord"), Principal("x509", "CN=a,O=shop"))
    assert (
        found.members == (Principal("digest", hashed("app")),)
        and str(found.readers[0]) == "world:anyone"
    )
    said = repr(found) + str(found.members[0]) + repr(found.acl("/"))
    assert hashed("app").partition(":")[2] not in said, "a hash of a password"


@pytest.mark.parametrize(
    ("coordinators", "members", "readers", "part"),
    [
        ("", "sasl:app", "", "coordinators names nobody"),
        ("sasl:coord", " ; ", "", "members names nobody"),
        ("sasl", "sasl:app", "", "no principal"),
        ("sasl:", "sasl:app", "", "no principal"),
        ("sasl:c", "world:anyone", "", "everybody"),
        ("world:anyone", "sasl:a", "", "everybody"),
        ("auth:", "sasl:a", "", "no principal"),
        ("auth:x", "sasl:a", "", "whoever creates"),
        ("digest:secret", "sasl:a", "", "its digest"),
        ("sasl:c", "sasl:a", ";".join(f"ip:10.0.0.{n}" for n in range(100)), "102 principals"),
        ("sasl:c\nx", "sasl:a", "", "no principal"),
        (ONE, TWO, "", "with another password"),
        (ONE, "sasl:a", TWO, "with another password"),
        (ONE, ONE, "", "members names nobody but coordinators"),
        (f"{ONE};{TWO}", TWO, "", "members names nobody but coordinators"),
        ("ip:10.0.0.1", "ip:10.0.0.1", "", "all consumers may do everything"),
        (ONE, "sasl:a", ONE, "readers names nobody but coordinators"),
        (ONE, "digst:app:secret", "", "'digst:app' .*no such scheme: did you mean digest"),
        ("Digest:c:secret", "sasl:a", "", "no such scheme"),
        (ONE, "digest:app:secret", "", "openssl dgst -binary -sha1 | base64"),
        (ONE, "digest:app:c2VjcmV0", "", "base64 of 20 bytes and not the password"),
        (ONE, "digest:app:x", "", "base64 of 20 bytes"),
        (ONE, "ip:10.0.0.300", "", "no address"),
        (ONE, "ip:10.0.0.0/33", "", "no address"),
        (ONE, "ip:10.0.0.0/255.0.0.0", "", "no address"),
        (ONE, "sasl:a", "world:all", "everybody is world:anyone"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    coordinators: str, members: str, readers: str, part: str
) -> None:
    with pytest.raises(ConfigurationError, match=part) as caught:
        roles(coordinators, members, readers, NAMES)
    assert "\n" not in str(caught.value) and "secret" not in str(caught.value)


def test_coordinators_have_two_passwords_while_one_is_exchanged_and_may_be_members() -> None:
    both = f"{ONE};{TWO}"
    found = roles(both, f"digest:{hashed('app')};{ONE};sasl:c", f"{TWO};ip:::1/64", NAMES)
    assert [len(who) for who in (found.coordinators, found.members, found.readers)] == [2, 3, 2]


@pytest.mark.parametrize(
    "who", ["x509:spiffe://prod/app", "x509:app.example.com", "shop:bob", "sasl:app/h@REALM"]
)
def test_who_may_be_known_to_a_server_is_taken(who: str) -> None:
    """By a certificate's alternative name, or by a provider that was plugged in."""
    assert str(roles("sasl:coord", who, "", NAMES).members[0]) == who


def test_an_acl_beside_its_place_is_told() -> None:
    path = Layout.DRAFT.epoch
    wanted = ROLES.acl(path)
    assert judge(ROLES, path, wanted) is None and judge(ROLES, path, wanted[::-1]) is None
    found = judge(ROLES, path, OPEN_ACL)
    assert (
        found is not None
        and found.is_open
        and "world:anyone may rwcda" in str(found)
        and "digest:coord lacks rwcda" in str(found)
    )
    found = judge(ROLES, path, (*wanted, AclEntry(2, "digest", ROLES.members[0].id)))
    assert found is not None and found.is_open and str(found) == f"{path}: digest:app may w"
    assert (
        judge(
            ROLES,
            path,
            [
                AclEntry(entry.perms, entry.scheme, entry.id.partition(":")[0] + ":x")
                for entry in wanted
            ],
        )
        is None
    ), "as readers are shown it"
    found = judge(ROLES, path, wanted[:2])
    assert (
        found is not None and not found.is_open and str(found) == f"{path}: digest:viewer lacks r"
    )


def test_two_users_of_one_name_are_told_apart() -> None:
    path = Layout.DRAFT.epoch
    stranger = str(make_digest_acl_credential("app", "another password"))
    entries = [e for e in ROLES.acl(path) if e.id != ROLES.members[0].id]
    found = judge(ROLES, path, [*entries, AclEntry(1, "digest", stranger)])
    there, lacks = (one.partition(":")[2][:4] for one in (stranger, ROLES.members[0].id))
    assert there != lacks
    assert str(found) == f"{path}: digest:app:{there}... may r, digest:app:{lacks}... lacks r"
    assert stranger.partition(":")[2] not in str(found)


def test_the_documentation_has_the_table() -> None:
    text = DOCS.read_text(encoding="utf-8")
    for rule in MATRIX:
        paths = " ".join(
            f"`{path}`" for path in dict.fromkeys(rule.path(layout) for layout in BOTH)
        )
        said = [cells(rule.path(layout)) for layout in BOTH]
        assert said[0] == said[1], rule.what
        row = f"| {rule.what} | {paths} | {' | '.join(said[0].values())} | {rule.why} |"
        assert row in text, row
