"""What of Java's syntax is followed, and what it is in RE2; one of each kind, and exact limits."""

from __future__ import annotations

import re

import pytest
import re2

from zkcoord.znodes.java_patterns import DEPTH_MAX, LITERALS_CHARS_MAX, Refusal, follow
from zkcoord.znodes.name_sets import NAME, NOTHING

THE_SAME = (
    *r"""
    a{1000} a{1,1} \-a [\d.] [\w_] [\.] [\-] [a-c] [a-c-] [a-] [-a] [^-a] [a-cx-z-] ^ a^b | ()
    a*? a?? a{2}? \ba\B \z [^\w] [^a-zA-Z0-9._-] a{1,2}/ !~ \/ [a-a]
    """.split(),
)
# <nothing>: no character of a topic's name
OTHERWISE = {
    "(?i:a)b|(?i:a)B": "(?:[Aa])b|(?:[Aa])B",
    "(?i:ab)c": "(?:[Aa][Bb])c",
    "(?is)a": "[Aa]",
    "(?si)a": "[Aa]",
    "(?s)a": "a",
    "(?i-s)a": "[Aa]",
    "(?s-i)a": "a",
    "(?-i)a": "a",
    "(?isisis)a": "[Aa]",
    "(?isisisi)a": "[Aa]",
    "(?isisisi:a)": "(?:[Aa])",
    "(?i)a+?": "[Aa]+?",
    "a{0001}": "a{1}",
    "a{1,0002}": "a{1,2}",
    "a{1,01}": "a{1,1}",
    "a{00}": "a{0}",
    r"\Qab\E{2}": "ab{2}",
    r"\Qab": "ab",
    r"\Qa\E*+": "a*",
    r"\Q\Ea": "a",
    r"\Qa.b\E|\Qc\E": r"a\.b|c",
    r"\x{61}b": "ab",
    r"\x{000061}": "a",
    r"\x{0}": "<nothing>",
    r"\x{10FFFF}": "<nothing>",
    r"\x{D7FF}": "<nothing>",
    r"\x{E000}": "<nothing>",
    r"\x61": "a",
    r"\u0061": "a",
    r"\ue000": "<nothing>",
    r"\0141": "a",
    r"\060": "0",
    r"\0377": "<nothing>",
    r"\0400": "<nothing>0",
    r"\07": "<nothing>",
    r"\t": "<nothing>",
    r"\n": "<nothing>",
    r"\_a": "_a",
    r"[\d-a]": r"[\-0-9a]",
    r"[\d-]": r"[\-0-9]",
    r"[\Da]": r"[\-\.A-Z_a-z]",
    r"[\Wa]": r"[\-\.a]",
    r"[\S]": ".",
    r"[\pLa]": "[A-Za-z]",
    r"[\p{L}a]": "[A-Za-z]",
    r"[\P{L}a]": r"[\-\.0-9_a]",
    r"[\_]": "_",
    r"[\x61-c]": "[a-c]",
    r"[a-\x63]": "[a-c]",
    "[+-a]": r"[\-\.0-9A-Z_a]",
    "[a-~]": "[a-z]",
    "[!-~]": ".",
    "[.-a]": r"[\.0-9A-Z_a]",
    "[_-a]": "[_a]",
    "[A-_]": "[A-Z_]",
    "[a-c-e]": r"[\-a-ce]",
    "[a-z&&[^b]]": "[ac-z]",
    "(?!a).*": "(?:|[^a].*)",
    "(?!a).*$": "(?:|[^a].*)",
    "(?!a).+$|b": "(?:|[^a].*)|b",
    "(?!a$).*": "(?:|[^a].*|a(?:.+))",
    "(?!(a|b)).*": "(?:|[^ab].*)",
    "(?!(a|b).*).*": "(?:|[^ab].*)",
    "(?!(?:a|b)).*": "(?:|[^ab].*)",
    r"(?!\.).*": r"(?:|[^\.].*)",
    "(?![.]a).*": r"(?:|[^\.].*|\.(?:|[^a].*))",
    "(?![_]a).*": "(?:|[^_].*|_(?:|[^a].*))",
    "(?!a.*$).*": "(?:|[^a].*)",
    "(?!a-b_c).*": r"(?:|[^a].*|a(?:|[^\-].*|\-(?:|[^b].*|b(?:|[^_].*|_(?:|[^c].*)))))",
    "(?!).*": "<nothing>",
    "(?!a|a$).*": "(?:|[^a].*)",
    r"(?!\/a).*": "(?:|.+)",
    "a|(?!b).*": "a|(?:|[^b].*)",
    "^(?!b).*": "(?:|[^b].*)",
    "(?!a)(?!b).*": "(?:|[^ab].*)",
    "a*+": "a*",
    "a*+|b": "a*|b",
    "a{2}+": "a{2}",
    r"\A\z\Z": r"\A\z\z",
    r"\Z": r"\z",
    r"\p{Lower}\z": r"[a-z]\z",
    r"\p{Lower}[\d]": "[a-z][0-9]",
    "a]": "a<nothing>",
    "a}": "a<nothing>",
    "a b": "a<nothing>b",
    "[ ]": "<nothing>",
    "[é]": "<nothing>",
    "é": "<nothing>",
    "(?i)k": "[Kk]",
    "(?i)[k]": "[Kk]",
    r"(?i)\x6b": "[Kk]",
    "(?i)[^a]": r"[\-\.0-9B-Z_b-z]",
    r"\p{Lower}+": "[a-z]+",
    r"\P{Lower}": r"[\-\.0-9A-Z_]",
    r"\pN": "[0-9]",
    r"[^\x00]": ".",
    r"[\x00]": "<nothing>",
}
NOT_FOLLOWED = (
    *r"""
    (?-)a (?i-)a (?isisisis)a (?isisisis:a) (?u)a a{1001} a{1,1001} a{01000} a{99999}
    a{1,99999} a{1,00002} a{1234567890}
    \Q\E+a \x{}a \x{0000061} \x{61 \x{110000} \x{D800} \x{DFFF} \x{g} \x{-1} \ud800
    \udfff \cA \1 \k \é [\é] [\Qa] [\b] [\B] [\Z] [a-\d] [a-\w] [a-[b]] [a-&&[b]] [^a&&[b]]
    [&&[b]] [a&&[b]c] [a&&b] (?!a) (?!a).*x (?!(?=a)).* (?!(?i)a).* (?!(a|b)x).* (?!(a).*
    (?!\a).* (?!\x).* (?!\é).* (?!\).* (?![a]b).* (?!a.]b).* (?!a_]b).* (?!a]).* (?!é).*
    (?!a+).* (?!a{2}).* (?!a.*b).* (?!a$b).* (?i)(?!a).* (?!a)b (?!é (a(?!b).*) a(?!b) ^* $+
    \01\Q2\E \x6\Qa\E [\x6\Qa\E] [\x6\Qa\E](?!x$).*\s|E a{1\Q2\E} \u006\Q1\E \0\Q7\E
    a*+b (a)*+ (a*+) (a*+|b)ac a?+? {2} \b{g} \b* (?i)\pL \p \p{é} (?i)a|(?!b).*
    """.split(),
    # a dash that is not ASCII
    "\\\u2013",
    "[\\\u2013]",
    "(?!\\\u2013).*",
)
REFUSED_BY_JAVA = (
    *r"""
    a{ a{} a{9 a{2,1} a{1,x} a{x} a{,5} \x6 \x6g \u006 \u00 \08 \0 [\y] [a-_] [a--] [a- [a [ (a
    a) a** a+* a{2}* *a (*a) (?i)[a-C] \p{ \p{L
    """.split(),
    "[a\\",
    "[a-\\",
    "a\\",
)


@pytest.mark.parametrize("regex", THE_SAME)
def test_what_stays_as_it_is(regex: str) -> None:
    assert follow(regex) == regex


@pytest.mark.parametrize("regex", OTHERWISE)
def test_what_is_said_otherwise(regex: str) -> None:
    assert follow(regex) == OTHERWISE[regex].replace("<nothing>", NOTHING)


@pytest.mark.parametrize("regex", NOT_FOLLOWED)
def test_what_a_consumer_may_use_and_we_cannot_follow(regex: str) -> None:
    found = follow(regex)
    assert isinstance(found, Refusal) and not found.by_java and str(found.reason)


@pytest.mark.parametrize("regex", REFUSED_BY_JAVA)
def test_what_java_refuses(regex: str) -> None:
    found = follow(regex)
    assert isinstance(found, Refusal) and found.by_java and str(found.reason)


def test_what_stands_behind_a_quantifier_is_said() -> None:
    found = follow("just this+*")
    assert isinstance(found, Refusal) and found.reason == "its * stands behind another quantifier"


def test_a_name_of_all_characters_is_excluded() -> None:
    name = "".join(sorted(NAME))
    found = follow(f"(?!{re.escape(name)}$).*")
    assert isinstance(found, str)
    assert not re2.fullmatch(found, name) and re2.fullmatch(found, name[1:])


def test_as_deep_and_as_long_as_may_be() -> None:
    for more, followed in ((0, True), (1, False)):
        depth = DEPTH_MAX + more
        assert isinstance(follow("(" * depth + "a" + ")" * depth), str) is followed
        # with the bracket behind it
        literal = "a" * (LITERALS_CHARS_MAX - 1 + more)
        assert isinstance(follow(f"(?!{literal}).*"), str) is followed
