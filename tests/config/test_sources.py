"""The table of options, where values come from, and every sentence that refuses one."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from zkcoord.config.option_spec import OptionKind, Use
from zkcoord.config.options import CORE_INTERNAL, TABLE, core_options, markdown, options_of
from zkcoord.config.settings import (
    CoordinatorSettings,
    coordinator_settings,
    journal_dir,
    zk_options,
)
from zkcoord.config.sources import add_flags, resolve
from zkcoord.core.assignment import ASSIGNORS
from zkcoord.core.options import CoordinatorOptions
from zkcoord.errors import ConfigurationError
from zkcoord.zk.options import Digest
from zkcoord.zk.port import OPEN_ACL, AclEntry

DOCS = Path(__file__).parents[2] / "docs" / "operations.md"


def settled(
    flags: dict[str, Any] | None = None, environment: dict[str, str] | None = None
) -> CoordinatorSettings:
    """What a coordinator would work with."""
    environment = environment or {}
    resolved = resolve(Use.COORDINATOR, {"zookeeper": "zk:2181", **(flags or {})}, environment)
    return coordinator_settings(resolved, tuple(ASSIGNORS), environment)


def refusal(flags: dict[str, Any] | None = None, environment: dict[str, str] | None = None) -> str:
    """The sentence that refuses this."""
    with pytest.raises(ConfigurationError) as caught:
        settled(flags, environment)
    text = str(caught.value)
    assert "\n" not in text and not text.endswith(".")
    return text


def written(path: Path, text: str) -> str:
    """A file with this text."""
    path.write_text(text, encoding="utf-8")
    return str(path)


# the table


def test_every_option_of_the_core_is_offered_or_named_internal_and_has_the_cores_default() -> None:
    fields = {field.name: field.default for field in dataclasses.fields(CoordinatorOptions)}
    assert set(fields) >= CORE_INTERNAL, "CORE_INTERNAL names an option that the core no longer has"
    assert set(fields) - CORE_INTERNAL <= set(TABLE), (
        "an option of the core is neither offered nor named internal"
    )
    for name in set(fields) - CORE_INTERNAL:
        assert TABLE[name].default == fields[name]
    assert settled().core == CoordinatorOptions()


def test_defaults_keep_their_own_bounds_and_names_end_with_their_unit() -> None:
    for option in TABLE.values():
        if option.kind is OptionKind.INTEGER and option.default is not None:
            assert (
                isinstance(option.default, int) and option.low <= option.default <= option.high
            ), option.name
        if option.choices and option.default is not None:
            assert option.default in option.choices
        if option.secret:
            assert option.default is None
    durations = [
        name for name in TABLE if "timeout" in name or "debounce" in name or "lease" in name
    ]
    assert all(name.endswith(("_ms", "_ms_max", "_max_ms", "_percent")) for name in durations)


def test_the_documentation_has_the_table_as_it_is() -> None:
    assert markdown() in DOCS.read_text(encoding="utf-8"), (
        "docs/operations.md: paste the output of zkcoord.config.options.markdown()"
    )


def test_each_option_becomes_a_flag_with_help() -> None:
    for use in Use:
        parser = argparse.ArgumentParser()
        add_flags(parser, use)
        text = parser.format_help()
        for option in options_of(use):
            assert option.flag in text


def test_core_options_are_mapped_by_name() -> None:
    core = settled({"debounce_ms": "7", "assignor": "range", "groups_in_flight_max": "3"}).core
    assert (core.debounce_ms, core.default_assignor, core.groups_in_flight_max) == (7, "range", 3)
    assert core_options(lambda name: TABLE[name].default) == CoordinatorOptions()


# precedence


def test_a_flag_wins_over_the_environment_that_over_the_file_that_over_the_default(
    tmp_path: Path,
) -> None:
    path = written(
        tmp_path / "z.json",
        '{"debounce_ms": 1, "lease_max_ms": 1001, "rebalance_timeout_max_ms": 10001}',
    )
    environment = {
        "ZKCOORD_CONFIG": path,
        "ZKCOORD_DEBOUNCE_MS": "2",
        "ZKCOORD_LEASE_MAX_MS": "1002",
    }
    core = settled({"debounce_ms": "3"}, environment).core
    assert (
        core.debounce_ms,
        core.lease_max_ms,
        core.rebalance_timeout_max_ms,
        core.debounce_max_ms,
    ) == (3, 1002, 10001, 2000)
    other = written(tmp_path / "other.json", '{"lease_max_ms": 5005}')
    assert settled({"config": other}, {"ZKCOORD_CONFIG": path}).core.lease_max_ms == 5005


def test_toml_and_json_say_the_same_and_dashes_are_underscores(tmp_path: Path) -> None:
    pytest.importorskip("tomllib")
    toml = written(
        tmp_path / "z.toml",
        '# a comment\nsession-timeout-ms = 9_000\nhttp = false\nacl = "world:anyone:r"\n',
    )
    json = written(
        tmp_path / "z.json", '{"session_timeout_ms": 9000, "http": false, "acl": "world:anyone:r"}'
    )
    found = [settled({"config": path}) for path in (toml, json)]
    assert found[0] == found[1]
    assert (
        found[0].zk.session_timeout_ms == 9000
        and found[0].http is None
        and found[0].zk.acl == (AclEntry(1, "world", "anyone"),)
    )


def test_without_a_toml_reader_the_refusal_names_both_ways_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("zkcoord.config.sources.importlib.import_module", missing)
    text = refusal({"config": written(tmp_path / "z.toml", "http = false")})
    assert "pip install tomli" in text and ".json" in text


def test_an_empty_variable_counts_as_not_set_and_a_foreign_one_is_reported() -> None:
    found = settled(
        {}, {"ZKCOORD_LAYOUT": "", "ZKCOORD_SERVICE_HOST": "10.0.0.1", "ZKCOORD_CACHE": "/x"}
    )
    assert found.layout.name == "draft"
    assert len(found.notes) == 1 and "ZKCOORD_SERVICE_HOST" in found.notes[0]


def test_options_of_other_commands_may_stand_in_a_shared_file(tmp_path: Path) -> None:
    path = written(
        tmp_path / "z.json", '{"zookeeper": "a:1", "lease_max_ms": 9999, "http_port": 80}'
    )
    resolved = resolve(Use.GROUPS, {"config": path}, {})
    assert zk_options(resolved).hosts == "a:1" and "lease_max_ms" not in resolved.values


# refusals: each names the place and what to write instead


@pytest.mark.parametrize(
    ("flags", "environment", "parts"),
    [
        ({"zookeeper": None}, {}, ("no ZooKeeper is named", "--zookeeper HOST:PORT")),
        ({"zookeeper": "zk:port"}, {}, ("'port'", "1 to 65535")),
        ({"zookeeper": "zk:1/a,zk2:1"}, {}, ("chroot", "after the last host:port")),
        ({"layout": "draught"}, {}, ("--layout is 'draught'", "write draft")),
        ({"layout": "x"}, {}, ("write draft or isolated",)),
        ({}, {"ZKCOORD_LAYOUT": "isolatd"}, ("ZKCOORD_LAYOUT", "write isolated")),
        ({"assignor": "stickey"}, {}, ("--assignor is 'stickey'", "sticky")),
        (
            {"debounce_ms": "soon"},
            {},
            ("--debounce-ms is 'soon'", "whole number from 0 to", "(ms)"),
        ),
        ({"debounce_ms": "-1"}, {}, ("--debounce-ms is '-1'",)),
        ({"debounce_ms": "1e3"}, {}, ("--debounce-ms is '1e3'",)),
        ({"debounce_ms": "9" * 30}, {}, ("whole number",)),
        ({"debounce_ms": "١٢"}, {}, ("whole number",)),
        (
            {"debounce_ms": "400"},
            {},
            ("--debounce-ms (400) is more than debounce_storm_ms (300)", "smaller"),
        ),
        ({"debounce_max_ms": "20"}, {}, ("more than debounce_max_ms (20)",)),
        ({"session_timeout_ms": "1"}, {}, ("from 100 to",)),
        ({}, {"ZKCOORD_HTTP": "maybe"}, ("ZKCOORD_HTTP is 'maybe'", "on or off")),
        (
            {},
            {"ZKCOORD_ZOOKEPER": "a"},
            ("'ZKCOORD_ZOOKEPER' is not an option", "ZKCOORD_ZOOKEEPER"),
        ),
        (
            {"http": False, "http_port": "80"},
            {},
            ("--http-port is given, but --no-http", "leave one of them out"),
        ),
        (
            {"journal": False},
            {"ZKCOORD_JOURNAL_DIR": "/x"},
            ("ZKCOORD_JOURNAL_DIR is given, but --no-journal",),
        ),
        ({"guardian": False, "guardian_report_path": "/x"}, {}, ("--no-guardian",)),
        (
            {},
            {"ZKCOORD_BOOTSTRAP_SERVERS": "k1:9092,foo:bar"},
            ("ZKCOORD_BOOTSTRAP_SERVERS has 'foo:bar' in it", "HOST:PORT"),
        ),
        ({"tls_ca_file": "/x"}, {}, ("--tls-ca-file is given, but tls is off", "add --tls")),
        (
            {"tls": True, "tls_ca_file": "/does/not/exist"},
            {},
            ("the TLS file of authorities", "/does/not/exist"),
        ),
        ({"tls": True, "tls_key_file": "/x"}, {}, ("without a certificate",)),
        ({"zookeeper_user": "a"}, {}, ("user is given alone", "zookeeper_password")),
        ({"zookeeper_password": "s3cret"}, {}, ("password is given alone", "zookeeper_user")),
        (
            {"zookeeper_user": "a", "zookeeper_password": "b", "zookeeper_password_file": "/x"},
            {},
            ("both given",),
        ),
        (
            {"zookeeper_user": "a", "zookeeper_password_file": "/does/not/exist"},
            {},
            ("/does/not/exist cannot be read",),
        ),
        ({"sasl_mechanism": "PLAIN"}, {}, ("--sasl-mechanism is 'PLAIN'", "DIGEST-MD5 or GSSAPI")),
        (
            {"sasl_mechanism": "GSSAPI", "zookeeper_user": "a", "zookeeper_password": "b"},
            {},
            ("ticket cache",),
        ),
        ({"acl": "world:anyone"}, {}, ("SCHEME:ID:PERMISSIONS",)),
        ({"acl": "world:anyone:x"}, {}, ("cdrwa",)),
        ({"acl": "auth::cdrwa"}, {}, ("scheme auth", "zookeeper_user")),
        ({"acl": "digst:bob:x:cdrwa"}, {}, ("'digst:bob'", "no such scheme", "SCHEME:ID:PERM")),
        ({"acl": "digest:bob:pw:cdrwa"}, {}, ("'digest:bob'", "openssl dgst -binary -sha1")),
        ({"broker_id": "first"}, {}, ("--broker-id", "whole number")),
        ({"host": "a\nb"}, {}, ("--host is empty or has control characters",)),
    ],
)
def test_what_is_wrong_is_refused_with_what_to_write(
    flags: dict[str, Any], environment: dict[str, str], parts: tuple[str, ...]
) -> None:
    text = refusal(flags, environment)
    for part in parts:
        assert part in text, text


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("z.json", '{"zookeper": "a"}', ("'zookeper' in", "write zookeeper")),
        ("z.json", '{"xyzzy": 1}', ("'xyzzy' in", "--help")),
        ("z.json", '{"coordinator": {"http": true}}', ("'coordinator' in", "is a table")),
        ("z.json", '{"zookeeper": null}', ("zookeeper in", "is null: leave it out, or write HOST")),
        ("z.json", "null", ("one table of options",)),
        ("z.json", '{"debounce_ms": [1]}', ("debounce_ms in", "not a single value")),
        ("z.json", '{"debounce_ms": true}', ("debounce_ms in", "whole number")),
        ("z.json", '{"debounce_ms": 1.5}', ("debounce_ms in", "whole number")),
        ("z.json", '{"zookeeper": 7}', ("zookeeper in", "text in quotes")),
        ("z.json", "[]", ("one table of options",)),
        ("z.json", "{", ("is not JSON",)),
        ("z.json", "[" * 100_000, ("is not JSON",)),
        ("z.ini", "", (".toml nor .json",)),
        ("z.json", " " * 1_100_000, ("larger than",)),
    ],
)
def test_a_bad_file_is_refused(
    tmp_path: Path, name: str, content: str, parts: tuple[str, ...]
) -> None:
    text = refusal({"config": written(tmp_path / name, content)})
    for part in parts:
        assert part in text, text


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert "cannot be read" in refusal({"config": str(tmp_path / "none.json")})
    assert "cannot be read" in refusal({"config": str(tmp_path)[:-1] + "/x.toml"})


def test_a_secret_is_never_quoted(tmp_path: Path) -> None:
    path = written(tmp_path / "z.json", '{"zookeeper_password": ["s3cret"]}')
    assert "s3cret" not in refusal({"config": path})
    assert "4711" not in refusal(
        {"config": written(tmp_path / "n.json", '{"zookeeper_password": 4711}')}
    )
    assert "s3cret" not in refusal({"zookeeper_password": "s3cret\x00"})
    found = settled({"zookeeper_user": "u", "zookeeper_password": "s3cret"})
    assert "s3cret" not in repr(found) and found.zk.digest == Digest("u", "s3cret")


def test_a_password_file_gives_its_first_line(tmp_path: Path) -> None:
    path = written(tmp_path / "p", "s3cret\nsomething else\n")
    assert settled({"zookeeper_user": "u", "zookeeper_password_file": path}).zk.digest == Digest(
        "u", "s3cret"
    )
    assert "empty first line" in refusal(
        {"zookeeper_user": "u", "zookeeper_password_file": written(tmp_path / "e", "\n")}
    )


def test_an_acl_entry_may_have_colons_in_its_id() -> None:
    bob = "bob:m4cxMpBIm3Ds3yHPtXMOKFz9+mM="
    acl = settled({"acl": f"digest:{bob}:cdrwa,world:anyone:r"}).zk.acl
    assert acl == (AclEntry(31, "digest", bob), AclEntry(1, "world", "anyone"))
    assert settled().zk.acl == OPEN_ACL


def test_the_journals_folder_follows_the_users_state(tmp_path: Path) -> None:
    resolved = resolve(Use.JOURNAL, {}, {})
    assert (
        journal_dir(resolved, {"XDG_STATE_HOME": str(tmp_path)}) == tmp_path / "zkcoord" / "journal"
    )
    assert journal_dir(resolved, {"XDG_STATE_HOME": "relative"}).is_absolute()
    assert journal_dir(resolve(Use.JOURNAL, {"journal_dir": "/x/y"}, {}), {}) == Path("/x/y")
