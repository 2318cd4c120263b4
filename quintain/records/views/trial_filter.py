"""Filter expressions over trials, such as `accuracy > 0.9 and optimizer in (adam, lamb)`.

Grammar, which `tests/records/views/filter_vectors.json` has examples of:

    either:      both (("or" | "||") both)*
    both:        single (("and" | "&&") single)*
    single:      ("not" | "!") single | "(" either ")" | comparison
    comparison:  name ("<" | "<=" | ">" | ">=" | "==" | "=" | "!=" | "~") value
                 | name ["not"] "in" "(" value ("," value)* ")"

A name is a column (`state`), a hyperparameter (`learning_rate`, `hparams.learning_rate`), or a
metric (`accuracy`, `validation/accuracy`, `training/loss.last`); names with other letters stand in
backquotes. A value is a number, a text in quotes, or a word without them.

What is compared:
    - Numbers with numbers; `nan`, `inf` and `-inf` are numbers, and `nan` equals itself.
    - Texts with texts, whatever their case. `~` asks whether a text contains another one.
    - Truth values as `true` and `false`, or as 1 and 0.
    - A missing value makes every comparison false; a number and a text are different.
"""

import dataclasses
import json
import math
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

from typing_extensions import override

from quintain import errors
from quintain.records.rows import codec
from quintain.records.views import trial_names

MAX_LENGTH: Final = 4000
"""Characters of an expression."""

MAX_DEPTH: Final = 50
"""Parentheses and negations in each other."""

Columns = Mapping[str, Sequence[Any]]
"""Values of all trials by `trial_names.find`'s names; None where there is none."""

_NUMBER: Final = r"[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+"
"""Possessive: a long row of digits that is no number is not tried again digit by digit."""

_TOKEN: Final = re.compile(
    rf"""\s*(?:
      (?P<number>{_NUMBER}(?![\w./:+-]))
    | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<name>`[^`]+`)
    | (?P<sign><=|>=|==|!=|&&|\|\||[<>=!~(),])
    | (?P<word>[+-]?\w[\w./:+-]*)
    )""",
    re.VERBOSE,
)
_WORDS_AS_SIGNS: Final = {"and": "&&", "or": "||", "not": "!", "in": "in"}
_ORDERS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COMPARISONS: Final = frozenset({*_ORDERS, "==", "=", "!=", "~"})
_NUMBERS: Final = {
    "nan": math.nan,
    "inf": math.inf,
    "+inf": math.inf,
    "-inf": -math.inf,
    "infinity": math.inf,
    "+infinity": math.inf,
    "-infinity": -math.inf,
}


@dataclasses.dataclass(frozen=True)
class Filter:
    """Parsed filter expression."""

    test: Callable[[Columns, int], list[bool]]
    """Returns for each of so many trials whether it is chosen."""


def parse(text: str, known: Collection[str]) -> Filter:
    """Returns the filter of an expression; an empty one chooses all trials.

    Raises:
        ConfigError: With the position of the mistake, and the nearest name where one is unknown.

    Example:
        >>> chosen = parse("lr < 1e-2 and not state = error", ["hparams.lr", "state"])
        >>> chosen.test({"hparams.lr": [0.1, 0.001], "state": ["ACTIVE", "ACTIVE"]}, 2)
        [False, True]
        >>> parse("lrr < 0.1", ["hparams.lr"])
        Traceback (most recent call last):
        ...
        quintain.errors.ConfigError: where: at position 1: got 'lrr', expected a hyperparameter, \
metric or column. Did you mean 'lr'?
    """
    if len(text) > MAX_LENGTH:
        raise errors.ConfigError(
            f"where: got {len(text):,} characters, expected at most {MAX_LENGTH:,}."
        )
    parser = _Parser(list(_tokenize(text)), known)
    if parser.ahead.kind == "end":
        return Filter(lambda columns, num_rows: [True] * num_rows)
    return parser.read_whole()


class _AnyName(frozenset[str]):
    """Names that are not known yet: all of them are there."""

    @override
    def __contains__(self, name: object) -> bool:
        return True


def check(text: str) -> None:
    """Checks an expression whose names are not known yet.

    Raises:
        ConfigError: With the position of the mistake.
    """
    parse(text, _AnyName())


@dataclasses.dataclass(frozen=True)
class _Token:
    kind: str
    """`number`, `text`, `name`, `sign`, `word`, or `end`."""

    text: str
    """What it says: signs in one spelling, texts and names without their quotes."""

    shown: str
    """As it was written."""

    position: int
    """Of its first character, from 1."""


def _tokenize(text: str) -> Iterator[_Token]:
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            if text[start] in "\"'`":
                _fail(start + 1, f"{text[start:][:20]!r} has no closing {text[start]}.")
            _fail(start + 1, f"{text[start]!r} means nothing here.")
        kind, shown = match.lastgroup, match[match.lastgroup]
        content, start = shown, match.start(kind) + 1
        if kind == "text":
            content = re.sub(r"\\(.)", r"\1", shown[1:-1])
        elif kind == "name":
            content = shown[1:-1]
        elif kind == "word" and shown.lower() in _WORDS_AS_SIGNS:
            kind, content = "sign", _WORDS_AS_SIGNS[shown.lower()]
        yield _Token(kind, content, shown, start)
        position = match.end()
    yield _Token("end", "", "", len(text) + 1)


def _fail(position: int, problem: str) -> NoReturn:
    raise errors.ConfigError(f"where: at position {position}: {problem}")


class _Parser:
    """Reads tokens from the left, and builds what they ask."""

    def __init__(self, tokens: Sequence[_Token], known: Collection[str]) -> None:
        self._tokens = tokens
        self._known = known
        self._next = 0
        self._depth = 0

    @property
    def ahead(self) -> _Token:
        return self._tokens[self._next]

    def read_whole(self) -> Filter:
        found = self._read_either()
        if self.ahead.kind != "end":
            self._refuse("'and', 'or' or the end")
        return found

    def _read_either(self) -> Filter:
        parts = [self._read_both()]
        while self._take("||"):
            parts.append(self._read_both())
        return _join(any, parts)

    def _read_both(self) -> Filter:
        parts = [self._read_single()]
        while self._take("&&"):
            parts.append(self._read_single())
        return _join(all, parts)

    def _read_single(self) -> Filter:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            _fail(self.ahead.position, f"is nested deeper than {MAX_DEPTH} levels.")
        if self._take("!"):
            found = _negate(self._read_single())
        elif self._take("("):
            found = self._read_either()
            self._expect(")")
        else:
            found = self._read_comparison()
        self._depth -= 1
        return found

    def _read_comparison(self) -> Filter:
        token = self.ahead
        if token.kind not in ("word", "name"):
            self._refuse("a name")
        self._next += 1
        key = trial_names.find(token.text, self._known)
        if key is None:
            _fail(token.position, trial_names.describe_unknown(token.text, self._known))
        sign = self.ahead
        if sign.kind == "sign" and sign.text in _COMPARISONS:
            self._next += 1
            return _compare(key, _build_test(sign.text, self._read_value()))
        is_negated = self._take("!")
        if not self._take("in"):
            self._refuse("one of <, <=, >, >=, ==, !=, ~, in")
        self._expect("(")
        tests = [_build_test("==", self._read_value())]
        while self._take(","):
            tests.append(_build_test("==", self._read_value()))
        self._expect(")")
        return _compare(
            key, lambda value: value is not None and any(t(value) for t in tests) != is_negated
        )

    def _read_value(self) -> "_Literal":
        token = self.ahead
        if token.kind not in ("number", "text", "word"):
            self._refuse("a number, a text in quotes or a word")
        self._next += 1
        return _to_literal(token.text)

    def _take(self, sign: str) -> bool:
        """Returns whether a sign comes next, and goes on behind it."""
        is_there = self.ahead.kind == "sign" and self.ahead.text == sign
        self._next += is_there
        return is_there

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            self._refuse(f"'{sign}'")

    def _refuse(self, expected: str) -> NoReturn:
        token = self.ahead
        got = "the end" if token.kind == "end" else repr(token.shown)
        _fail(token.position, f"got {got}, expected {expected}.")


def _join(join: Callable[[Sequence[bool]], bool], parts: Sequence[Filter]) -> Filter:
    if len(parts) == 1:
        return parts[0]

    def test(columns: Columns, num_rows: int) -> list[bool]:
        results = [part.test(columns, num_rows) for part in parts]
        return list(map(join, zip(*results, strict=True)))

    return Filter(test)


def _negate(part: Filter) -> Filter:
    return Filter(lambda *given: [not is_chosen for is_chosen in part.test(*given)])


def _compare(key: str, compare: Callable[[Any], bool]) -> Filter:
    return Filter(lambda columns, _: list(map(compare, columns[key])))


@dataclasses.dataclass(frozen=True)
class _Literal:
    """A value in an expression."""

    text: str
    """In lower case."""

    number: float | None
    """What it is as a number, if it is one."""


def _to_literal(text: str) -> _Literal:
    lowered = text.lower()
    number = _NUMBERS.get(lowered)
    if number is None and re.fullmatch(_NUMBER, lowered):
        number = float(lowered)
    return _Literal(lowered, number)


def _build_test(sign: str, literal: _Literal) -> Callable[[Any], bool]:
    """Returns the predicate of a comparison with `literal`."""
    if sign == "~":
        return lambda value: (
            value is not None and not _is_number(value) and literal.text in _to_text(value)
        )
    is_negated = sign == "!="
    compare = _ORDERS.get(sign)

    def test(value: Any) -> bool:
        if value is None:
            return False
        value = codec.NOT_FINITE.get(value, value) if isinstance(value, str) else value
        if _is_number(value) or (isinstance(value, bool) and literal.number is not None):
            if literal.number is None:
                return is_negated
            if compare is not None:
                return compare(value, literal.number)
            is_same = value == literal.number or (value != value and math.isnan(literal.number))
            return is_same != is_negated
        text = _to_text(value)
        if compare is not None:
            return literal.number is None and compare(text, literal.text)
        return (text == literal.text) != is_negated

    return test


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _to_text(value: Any) -> str:
    """Returns the text by which a value that is no number is compared."""
    if isinstance(value, str):
        return value.lower()
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).lower()
