"""A real java.util.regex beside ours: which of some topics' names thousands of expressions cover.

    python -m tests.legacy.patterns [--seed 1] [--count 2500] [--write]

Draws expressions from a seed (half of Java's syntax is in the grammar, and some are spoilt by
chance), adds those by hand, asks Java, and compares: the same names, or a `Refusal`; never other
names. What Java refuses `follow` must not follow, and what `follow` says that Java refuses Java
must refuse. `--write` makes the table that `tests/znodes/test_java_patterns.py` reads anew, where
there is no Java. Exit status 1 where something differs.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import re2

from tests.legacy.jars import compiled
from zkcoord.stack.java import Java, find_java
from zkcoord.stack.process import owned_command
from zkcoord.znodes.java_patterns import Refusal, follow

HERE = Path(__file__).parent
SOURCE = HERE / "java" / "PatternTable.java"
TABLE = HERE / "java-patterns.json"
SEED, COUNT = 1, 2_500
TIMEOUT_S = 120.0
NO_ANSWER = ("slow", "broken")

NAMES = (
    *r"""
    a b x A Z 0 7 _ - .a a. a-b a_b a.b ab ba aab abab aaaa AB Ab orders Orders orders.eu
    orders-eu orders2 order orders.us.v2 __consumer_offsets __transaction_state __x _x x__
    payments payments_eu test.orders test tes testing abc.XYZ-09_z k K s S metrics.2026 xyz
    zzz-9 a..b Q E n d w
    """.split(),
)

# By hand: what people write, and what is read differently by one engine or the other.
BY_HAND = (
    *r"""
    (?!__).* ^(?!__).*$ (?!__).+ (?!__.*).* (?!(__|test)).* (?!__|test\.).*
    (?!__consumer_offsets$).* (?!__)(?!test).* (?!(?:__|test).*).* (?!__).*|orders (?!_)orders.*
    (?!.*test).* (?=orders).* (?<!x)orders (?<=o)rders (?!a).*b (?!orders[.]eu$).* (?!).*
    (?!.*).* x(?!__).* (?i)(?!ORDERS).* (?!a) [a-z&&[^x]]+ [a-z&&[aeiou]]+ [a-z&&[^aeiou]x]+
    [^a-z&&[x]]+ [a-z&&x]+ [a-c[x-z]]+ [^a-c[x-z]]+ [a-z&&[^b-y&&[x]]]+ [&&a]+ [a&b]+ [a&&]+ .*+
    a*+a [a-z]++ (ab)*+ x?+y a++|b++ (?>a*)b (?>a|ab)b \Qorders.eu\E \Qa.b\E* \Qorders
    [\Qa-z\E]+ \Q\E* \Qa\Eb+ \E \Q\\E \p{javaLowerCase}+ \p{Lower}+ \p{L}+ \pL+ \P{Upper}+
    \p{IsAlphabetic}+ \p{InGreek} (?i)\p{Lower}+ [\p{L}\d]+ \p{Punct} \p{Nope} \p{javaNope}+
    \h*a \H+ \R \v \V+ \X \G.* .*\G (a)\1 (a|b)\1* \1a (?<n>a)\k<n> (?<n>a)b (?P<n>a)b \k<x> \8
    \0141 \07 \0477 \08 \x61+ \x{61} a \x6 \cA (?i)orders (?u)K (?i)K (?U)\w+ (?i:ORD)ers
    or(?i)DERS|TEST (a(?i)B)B (?i)a(?-i)B (?s).* (?m)^a$ (?d). (?i)[a-c]+ (?i)[^a]+ (?i)[X-a]+
    (?i)[\x41]+ (?si-)a (?)a (?i-i)a a{2}{3} a{2}* a** a*? a+?b?? a{2,} a{,2} a{1|3} a{2,1}
    a{01,2}b? {2}a {a a{ a} a] a{1001} (a{500}){3} *a (*a) | a| |a () (|a)+ (a|b a) [a []a]+
    [^]a]+ [] [^ [a-]+ [-a]+ [a-z-9]+ [+--]+ [\w-.]+ [\w.-]+ [a-\d] [z-a] [^^a]+ [a^]+ [[a]]+
    [[:alpha:]]+ [\b] [.]+ [^.]+ [^\w]+ [\d\-]+ [a-c\x64]+ ^a a$ a^b ^^a$$ ^*a a$* \Aorders\z
    orders\Z \borders\b.* .*\Beu \b{g}a \_x \- \@ \y (?:a?)*b (a*)* (a|aa)+b? ((a?)*?)* (?:){3}a
    (a?b?){2,3} .*(eu|us).* orders\\..* (orders|payments)[._-]?(eu|us)? [a-z]+(\.[a-z0-9]+)*
    \d+|\w\D\W?\S\s* orders.*,payments.* 'orders' "orders"
    """.split(),
    "\\N{LATIN SMALL LETTER A}",
    "\\u006",
    "(?iu)ſ",
    "(?i)ſ",
    "(?x)or ders",
    "\\é",
    "orders\\",
    "é*a",
    "[é-ü]*a",
    "a\n?",
    "a b",
    "",
)


@dataclass(frozen=True)
class Answers:
    """What Java said of each expression: a mask (0 and 1, name by name), "refused", "slow", or
    "broken"."""

    java: str
    of: dict[str, str]


def asked(java: Java, expressions: Sequence[str]) -> Answers:
    """Java's answers."""
    command = [str(java.executable), "-Xss8m", "-cp", compiled(SOURCE, java), SOURCE.stem, *NAMES]
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said"
        text = "".join(each.encode("utf-16-be").hex() + "\n" for each in expressions)
        with said.open("wb") as output:
            subprocess.run(
                owned_command(command),
                input=text.encode(),
                stdout=output,
                timeout=TIMEOUT_S,
                check=True,
            )
        version, *answers = said.read_text(encoding="ascii").splitlines()
    assert len(answers) == len(expressions), answers[-1:]
    return Answers(version, dict(zip(expressions, answers, strict=True)))


def ours(regex: str) -> str | Refusal:
    """What we make of it: the same kind of mask, or why not."""
    followed = follow(regex)
    if isinstance(followed, Refusal):
        return followed
    options = re2.Options()
    options.log_errors = False
    try:
        compiled_ = re2.compile(followed, options)
    except re2.error:  # too large, say: the edge refuses it then
        return Refusal("RE2 refuses it")
    return "".join("01"[compiled_.fullmatch(name) is not None] for name in NAMES)


def differences(answers: dict[str, str]) -> Iterator[str]:
    """Each expression that we read otherwise than Java does."""
    for regex, java in answers.items():
        found = ours(regex)
        if isinstance(found, Refusal):
            if found.by_java and java != "refused":
                yield f"{regex!a}: Java takes it, and we say that it does not ({found.reason})"
        elif java == "refused":
            yield f"{regex!a}: Java refuses it, and we read {follow(regex)!a}"
        elif java not in NO_ANSWER and found != java:
            names = [n for n, a, b in zip(NAMES, java, found, strict=True) if a != b]
            yield f"{regex!a}, read as {follow(regex)!a}: {names} differ"


def drawn(seed: int, count: int) -> list[str]:
    """Expressions by chance, each once."""
    chance = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        regex = _expression(chance, 3)
        if chance.random() < 0.25 and regex:
            regex = _spoilt(chance, regex)
        if len(regex) <= 60:
            found[regex] = None
    return list(found)


_PLAIN = (
    *r"""
    a b o r x Q E orders test _ __ - 0 7 K
    """.split(),
    "é",
)
_ESCAPES = (
    *r"""
    \. \- \_ \d \D \w \W \s \S \h \H \v \R \b \B \A \z \Z \G \1 \2 \0141 \07 \x61 \x{62} \t \e
    \cA \p{Lower} \p{L} \pL \P{Upper} \p{javaLowerCase} \p{Alnum} \p{IsLatin} \Q.\E \Qa-b\E \Q
    \E \y \k<n>
    """.split(),
    "\\\\",
    "\\u0061",
)
_IN_CLASS = (
    *r"""
    a b x a-c x-z A-Z 0-9 a-z - . _ ^ & && [ ] [^a] [a-c] &&[^x] &&[a-f] \d \w \W \. \- \] \x61
    \p{L} \b \Qa\E z-a +-- X-b
    """.split(),
    "é",
)
_QUANTIFIED = (
    *r"""
    * + ? *? +? ?? {2} {1,2} {0,} {2,3}? *+ ++ ?+ {2}+
    """.split(),
)
_GROUPS = (
    *r"""
    ( ( ( (?: (?: (?i: (?-i: (?s: (?x: (?= (?! (?<= (?<! (?> (?<n> (?iu:
    """.split(),
)


def _expression(chance: random.Random, depth: int) -> str:
    return "|".join(
        "".join(_piece(chance, depth) for _ in range(chance.choice((0, 1, 1, 2, 2, 3, 4))))
        for _ in range(chance.choice((1, 1, 1, 2, 3)))
    )


def _piece(chance: random.Random, depth: int) -> str:
    kind = chance.random()
    if kind < 0.38:
        atom = chance.choice((*_PLAIN, ".", ".", "."))
    elif kind < 0.53:
        atom = chance.choice(_ESCAPES)
    elif kind < 0.70:
        inside = "".join(chance.choice(_IN_CLASS) for _ in range(chance.choice((1, 2, 2, 3, 4))))
        atom = f"[{chance.choice(('', '', '^'))}{inside}]"
    elif kind < 0.88 and depth:
        atom = f"{chance.choice(_GROUPS)}{_expression(chance, depth - 1)})"
    else:
        return chance.choice(
            (
                "^",
                "$",
                "(?i)",
                "(?s)",
                "(?-i)",
                ".*",
                ".+",
                "(?!__).*",
                "(?!a|orders).*",
                "(?!x$).*",
            )
        )
    return atom + (chance.choice(_QUANTIFIED) if chance.random() < 0.4 else "")


def _spoilt(chance: random.Random, regex: str) -> str:
    at = chance.randrange(len(regex))
    return chance.choice(
        (
            regex[:at] + regex[at + 1 :],
            regex[:at] + chance.choice("()[]{}|*+?\\^$-&.,") + regex[at:],
            regex[:at] + regex[at:][::-1],
        )
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Compare; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.legacy.patterns",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--write", action="store_true", help=f"make {TABLE.name} anew")
    args = parser.parse_args(argv)
    answers = asked(find_java(), [*dict.fromkeys((*BY_HAND, *drawn(args.seed, args.count)))])
    found = list(differences(answers.of))
    followed = sum(not isinstance(ours(regex), Refusal) for regex in answers.of)
    refused = sum(answer == "refused" for answer in answers.of.values())
    print(
        f"Java {answers.java}: {len(answers.of)} expressions, {refused} refused by Java, {followed}"
        f" followed by us, {len(found)} read otherwise"
    )
    print("".join(f"{sentence}\n" for sentence in found), end="")
    if args.write:
        lines = ",\n".join(f"{json.dumps(each)}: {json.dumps(a)}" for each, a in answers.of.items())
        TABLE.write_text(
            f'{{"java": {json.dumps(answers.java)}, "seed": {args.seed},\n"names":'
            f' {json.dumps(list(NAMES))},\n"expressions": {{\n{lines}\n}}}}\n',
            encoding="ascii",
        )
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
