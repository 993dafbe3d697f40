"""Old consumers' expressions: java.util.regex said in RE2, or not at all.

An old consumer covers the topics whose whole name its expression matches, by Java's rules. Much of
Java's syntax is RE2's as well, some means something else there (`[a-z&&[^x]]`), some exists in Java
only. So what is known to mean the same is listed here, and nothing else is taken: `follow` answers
with an expression in RE2 that covers the same topics' names, or with a `Refusal`.

Topics' names are 1 to 249 of 65 characters, none of which ends a line, so a class is a set of those
characters, `$` and `\\Z` are the end, and the flag s says nothing. What the longest or the first
match is does not matter where all of a name must match. Look-ahead is taken in one form, which is
what people write: `(?!literal).*`, perhaps of several literals, for a whole alternative.

The table that this is compared with was made by a real java.util.regex (`tests.legacy.patterns`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NoReturn

from zkcoord.core.value_type import value
from zkcoord.znodes.name_sets import (
    ANY,
    DIGITS,
    LETTERS,
    LOWER,
    NAME,
    PUNCTUATION,
    UPPER,
    Excluded,
    set_text,
)

DEPTH_MAX = 20
REPEAT_MAX = 1_000
LITERALS_CHARS_MAX = 300
FOLLOWED_KEPT_MAX = 1_024

_CLASSES = {
    "d": DIGITS,
    "D": NAME - DIGITS,
    "w": LETTERS | DIGITS | {"_"},
    "W": frozenset(".-"),
    "s": frozenset[str](),
    "S": NAME,
}
_PROPERTIES = {
    "Lower": LOWER,
    "Upper": UPPER,
    "ASCII": NAME,
    "Alpha": LETTERS,
    "Digit": DIGITS,
    "Alnum": LETTERS | DIGITS,
    "Punct": PUNCTUATION,
    "Graph": NAME,
    "Print": NAME,
    "XDigit": DIGITS | frozenset("abcdefABCDEF"),
    "Space": frozenset[str](),
    "L": LETTERS,
    "Lu": UPPER,
    "Ll": LOWER,
    "N": DIGITS,
    "Nd": DIGITS,
    "javaLowerCase": LOWER,
    "javaUpperCase": UPPER,
}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_ASSERTIONS = {"b": r"\b", "B": r"\B", "A": r"\A", "z": r"\z", "Z": r"\z"}
_NO_ESCAPES = frozenset("gijlmoqyCFIJKLMOTUY")
_SAME_ESCAPES = frozenset(r".-+*?()[]{}|^$\/")
_HEX = frozenset("0123456789abcdefABCDEF")
_OCTAL = "01234567"
_QUANTIFIERS = frozenset("*+?{")
AHEAD = "it has look-ahead that is not followed here"


@value
class Refusal:
    """Why there is no such expression in RE2. `by_java`: Java refuses it as well, so that nobody
    consumes by it; else a consumer may, and what it covers is not known here.
    """

    reason: str
    by_java: bool = False


@lru_cache(FOLLOWED_KEPT_MAX)
def follow(regex: str) -> str | Refusal:
    """An expression in RE2 that matches the same whole names of topics as `regex` does in Java: the
    text itself where it means the same in both. Never raises.
    """
    try:
        regex.encode("utf-8")
    except UnicodeError:
        return Refusal("it is not Unicode text")
    parser = _Parser(regex)
    try:
        text = parser.alternatives(0)
        if parser.at < len(regex):
            parser.refuse("it has a ) without a (", by_java=True)
    except _Refused as refused:
        return refused.refusal
    return regex if parser.same else text


class _Refused(Exception):
    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal


class _Parser:
    """One expression, read once from left to right. `same`: what was read means the same in RE2, as
    it is written.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.same = True
        # Flag i.
        self.folds = False

    # characters

    def refuse(self, reason: str, by_java: bool = False) -> NoReturn:
        # Java takes \Q and \E away before it reads the rest: [\x6\Qa\E] is [\x6a] to it
        raise _Refused(Refusal(reason, by_java and "\\Q" not in self.text))

    def peek(self, ahead: int = 0) -> str:
        """The next character; "" at the end."""
        return self.text[self.at + ahead : self.at + ahead + 1]

    def take(self) -> str:
        found = self.peek()
        self.at += 1
        return found

    def takes(self, word: str) -> bool:
        """Whether this comes next; then it is read."""
        if not self.text.startswith(word, self.at):
            return False
        self.at += len(word)
        return True

    def until(self, word: str) -> str | None:
        """What stands before this; then both are read. None: it does not come any more."""
        end = self.text.find(word, self.at)
        if end == -1:
            return None
        found = self.text[self.at : end]
        self.at = end + len(word)
        return found

    # structure

    def alternatives(self, depth: int) -> str:
        """Up to the end of the group, or of the text."""
        if depth > DEPTH_MAX:
            self.refuse(f"it is nested more than {DEPTH_MAX} deep")
        found = [self._sequence(depth)]
        while self.takes("|"):
            found.append(self._sequence(depth))
        return "|".join(found)

    def _sequence(self, depth: int) -> str:
        if depth == 0:
            excluding = self._excluding()
            if excluding is not None:
                return excluding
        found: list[str] = []
        while self.peek() not in ("", "|", ")"):
            if self.takes("^"):
                found.append(self._assertion("^"))
            elif self.takes("$"):
                found.append(self._assertion("$"))
            elif self.takes("("):
                found.append(self._group(depth))
            elif self.peek() in ("*", "+", "?"):
                self.refuse(f"its {self.peek()} stands behind nothing", by_java=True)
            elif self.peek() == "{":
                self.refuse("its { stands behind nothing")
            elif self.takes("\\Q"):
                found += self._quoted(depth)
            else:
                found.append(self._quantified(self._atom(), depth, single=True))
        return "".join(found)

    def _assertion(self, text: str) -> str:
        if self.peek() in _QUANTIFIERS:
            self.refuse(f"it repeats {text}")
        return text

    def _group(self, depth: int) -> str:
        """Behind its bracket."""
        opening, folded = "(", self.folds
        if self.takes("?"):
            opening = "(?:"
            if not self.takes(":") and self._flags():
                return ""  # they count until the end of the group around them
        inside = self.alternatives(depth + 1)
        if not self.takes(")"):
            self.refuse("it has a ( without a )", by_java=True)
        self.folds = folded
        return self._quantified(f"{opening}{inside})", depth, single=False)

    def _flags(self) -> bool:
        """True: they stand alone, `(?i)`; False: they are a group's, `(?i:`."""
        word = self.text[self.at : self.at + 8]
        end = next((n for n, c in enumerate(word) if c in ":)"), 0)
        on, minus, off = word[:end].partition("-")
        if end < 1 or not set(on + off) <= {"i", "s"} or (minus and not off):
            self.refuse(f"(?{word[:1]} is not followed here")
        self.same = False
        self.at += end + 1
        if "i" in on + off:
            self.folds = "i" not in off
        return word[end] == ")"

    def _quantified(self, atom: str, depth: int, single: bool) -> str:
        """An atom with what says how often."""
        if self.peek() not in _QUANTIFIERS:
            return atom
        count = self._counted() if self.peek() == "{" else self.take()
        if self.takes("?"):
            count += "?"
        elif self.takes("+"):
            self.same = False
            if not single or depth > 0 or self.peek() not in ("", "|"):
                self.refuse("it has a possessive quantifier")
        if self.peek() in ("*", "+", "?"):
            self.refuse(f"its {self.peek()} stands behind another quantifier", by_java=True)
        return atom + count

    def _counted(self) -> str:
        """From its bracket on."""
        self.at += 1
        least, comma, most = (self.until("}") or "").partition(",")
        if not least or not set(least + most) <= DIGITS:
            self.refuse("its { is not followed by a number or two and a }", by_java=True)
        if len(least) > 4 or len(most) > 4 or max(int(least), int(most or "0")) > REPEAT_MAX:
            self.refuse(f"it repeats something more than {REPEAT_MAX} times")
        if most and int(least) > int(most):
            self.refuse("a number of repetitions is larger than the one behind it", by_java=True)
        self.same = self.same and least == str(int(least)) and (not most or most == str(int(most)))
        return f"{{{int(least)}{comma}{int(most) if most else ''}}}"

    def _quoted(self, depth: int) -> list[str]:
        """Behind \\Q: literals until \\E. What follows that is the last one's."""
        self.same = False
        literals = self.until("\\E")
        if literals is None:
            literals, self.at = self.text[self.at :], len(self.text)
        texts = [set_text(self._one(c)) for c in literals]
        if texts:
            texts[-1] = self._quantified(texts[-1], depth, single=True)
        return texts

    # one character

    def _atom(self) -> str:
        c = self.take()
        if c == "[":
            began = self.at
            found = self._class()
            return f"[{self.text[began : self.at]}" if self.same else set_text(found)
        if c == ".":
            return ANY
        if c != "\\":
            if not ("!" <= c <= "~") or c in "]}":
                self.same = False
            return set_text(self._one(c)) if not self.same else c
        if self.peek() in _ASSERTIONS:
            c = self.take()
            self.same = self.same and c != "Z"
            return self._assertion(_ASSERTIONS[c])
        c = self.peek()
        began = self.at
        found = self._escaped()
        if c not in _SAME_ESCAPES and c not in _CLASSES:
            self.same = False
        return self.text[began - 1 : self.at] if self.same else set_text(found)

    def _escaped(self) -> frozenset[str]:
        """Behind a backslash: the characters of names that are meant."""
        c = self.take()
        if not c:
            self.refuse("it ends with a backslash", by_java=True)
        if c in _CLASSES:
            return _CLASSES[c]
        if c in "pP":
            return self._property(negated=c == "P")
        if c in _NO_ESCAPES:
            self.refuse(f"\\{c} means nothing", by_java=True)
        if not c.isascii():
            self.refuse("it has a backslash before a character that is not ASCII")
        return self._one(self._character(c))

    def _character(self, c: str) -> str:
        """The character of an escape that stands for one."""
        if c in _CONTROLS:
            return _CONTROLS[c]
        if c == "x" and self.takes("{"):
            digits = self.until("}") or ""
            if not 0 < len(digits) <= 6:
                self.refuse("its \\x{ is not followed here")
            return self._coded(digits)
        if c in "xu":
            digits = self.text[self.at : self.at + (2 if c == "x" else 4)]
            self.at += len(digits)
            if len(digits) < (2 if c == "x" else 4) or not _HEX.issuperset(digits):
                self.refuse(f"\\{c} has too few digits behind it", by_java=True)
            return self._coded(digits)
        if c == "0":
            return self._octal()
        if c.isalnum():
            self.refuse(f"\\{c} is not followed here")
        return c

    def _coded(self, digits: str) -> str:
        if _HEX.issuperset(digits):
            code = int(digits, 16)
            if code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
                return chr(code)
        self.refuse("it names a character by a number that is not followed here")

    def _octal(self) -> str:
        digits = ""
        while self.peek() and self.peek() in _OCTAL and len(digits) < 3:
            if len(digits) == 2 and digits[0] > "3":
                break
            digits += self.take()
        if not digits:
            self.refuse("\\0 has no octal digit behind it", by_java=True)
        if self.text.startswith("\\Q", self.at):
            self.refuse("its \\0 stands before a quotation, whose digits Java takes for its own")
        return chr(int(digits, 8))

    def _property(self, negated: bool) -> frozenset[str]:
        name = self.until("}") if self.takes("{") else self.take()
        if name is None:
            self.refuse("its \\p{ has no }", by_java=True)
        found = _PROPERTIES.get(name)
        if found is None or self.folds:
            self.refuse("its \\p is not followed here")
        return NAME - found if negated else found

    def _one(self, c: str) -> frozenset[str]:
        """What of names a literal matches."""
        return frozenset({c, c.lower(), c.upper()} if self.folds and c.isascii() else c) & NAME

    # classes

    def _class(self) -> frozenset[str]:
        """Behind its bracket: as Java reads it, but for what its releases read differently."""
        negated = self.takes("^")
        if self.peek() == "]":
            self.refuse("a class begins with ]")
        found: frozenset[str] = frozenset()
        while True:
            c = self.peek()
            if not c:
                self.refuse("it has a [ without a ]", by_java=True)
            if c == "]":
                self.at += 1
                break
            if c == "[":
                self.refuse("it has a class within a class")
            if self.text.startswith("&&", self.at):
                return self._common(found, negated or self.text[self.at - 1] in "[^")
            found |= self._item()
        return NAME - found if negated else found

    def _common(self, first: frozenset[str], odd: bool) -> frozenset[str]:
        """`[..&&[..]]` and `[..&&[^..]]`, and no more than that."""
        self.same = False
        if odd or not self.takes("&&["):
            self.refuse("it has && in a class in a form that is not followed here")
        second = self._class()
        if not self.takes("]"):
            self.refuse("it has && in a class in a form that is not followed here")
        return first & second

    def _item(self) -> frozenset[str]:
        """A character, an escape or a range."""
        began = self.at
        c = self.take()
        if c == "\\":
            c = self._escaped_in_class()
            if not c:
                self.same = self.same and self.peek() in "dws" and self.peek(1) != "-"
                return self._escaped()
        elif c not in LETTERS | DIGITS | PUNCTUATION or (c == "-" and not self._outermost(began)):
            self.same = False
        if self.peek() != "-" or self.peek(1) in ("]", ""):
            return self._one(c)
        if self.peek(1) == "[" or self.text.startswith("&&", self.at + 1):
            self.refuse("a range in a class is not followed here")
        self.at += 1
        last = self.take()
        if last == "\\":
            last = self._escaped_in_class()
            if not last:
                self.refuse("a range in a class is not followed here")
        if ord(last) < ord(c):
            self.refuse("a range in a class goes backwards", by_java=True)
        if last not in LETTERS | DIGITS or c not in LETTERS | DIGITS:
            self.same = False
        return frozenset(
            n
            for n in NAME
            if any(c <= each <= last for each in ((n, n.lower(), n.upper()) if self.folds else n))
        )

    def _escaped_in_class(self) -> str:
        """Behind a backslash: the one character that is meant; "" where it is a class of them."""
        c = self.peek()
        if not c:
            self.refuse("it ends with a backslash", by_java=True)
        if c in _CLASSES or c in "pP":
            return ""
        if c in _NO_ESCAPES:
            self.refuse(f"\\{c} means nothing", by_java=True)
        if not c.isascii():
            self.refuse("it has a backslash before a character that is not ASCII")
        if c not in ".-":
            self.same = False
        return self._character(self.take())

    def _outermost(self, at: int) -> bool:
        return self.text[at - 1] in "[^" or self.text[at + 1 : at + 2] == "]"

    # look-ahead

    def _excluding(self) -> str | None:
        """`(?!literal).*`, a whole alternative: which names those are. None: it is none."""
        began = self.at
        self.takes("^")
        if not self.text.startswith("(?!", self.at):
            self.at = began
            return None
        if self.folds:
            self.refuse(AHEAD)
        self.same = False
        root = Excluded()
        while self.takes("(?!"):
            self._literals(root)
        if not (self.takes(".*") or self.takes(".+")):
            self.refuse(AHEAD)
        self.takes("$")
        if self.peek() not in ("", "|"):
            self.refuse(AHEAD)
        return root.text()

    def _literals(self, root: Excluded) -> None:
        """Behind (?!: literals up to its end, with | between them, perhaps in a group."""
        grouped = self.takes("(?:") or self.takes("(")
        began = self.at
        self._literal(root)
        while self.takes("|"):
            self._literal(root)
        if grouped and self.takes(")"):
            self.takes(".*")
        elif grouped:
            began = -LITERALS_CHARS_MAX
        if not self.takes(")") or self.at - began > LITERALS_CHARS_MAX:
            self.refuse(AHEAD)

    def _literal(self, root: Excluded) -> None:
        """One of them; its end is looked at by `_literals`."""
        literal = ""
        while (c := self.peek()) not in ("", "|", ")"):
            if self.takes(".*"):
                self.takes("$")
                break
            if self.takes("$"):
                root.add(literal, whole=True)
                return
            self.at += 1
            if c == "\\" and not self.peek().isalnum() and self.peek().isascii():
                c = self.take()
            elif c == "[" and self.text[self.at : self.at + 2] in (".]", "_]"):
                c = self.take()
                self.at += 1
            elif c not in LETTERS | DIGITS | {"_", "-"}:
                self.refuse(AHEAD)
            literal += c
        root.add(literal, whole=False)
