"""Parse JSON from a daemon that is not trusted: anything but plain JSON of limited depth is
rejected."""
from __future__ import annotations

import json
from typing import Any, Dict, List, NoReturn, Tuple

from .errors import Malformed, printable

DEPTH = 64  # nested objects and lists; a daemon sends a tenth of that
DIGITS = 20  # digits of a 64-bit number with its sign
INFINITY = float("inf")


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"invalid number {printable(text, 20)}")


def _real(text: str) -> float:
    value = float(text)
    return value if -INFINITY < value < INFINITY else _refuse(text)


def _whole(text: str) -> int:
    return int(text) if len(text) <= DIGITS else _refuse(text)


def _members(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("duplicate name in an object")
    return members


_decode = json.JSONDecoder(object_pairs_hook=_members, parse_float=_real, parse_int=_whole, parse_constant=_refuse).decode


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEPTH:
            raise ValueError(f"nested more than {DEPTH} deep")
        level = [one for outer in level for one in (outer.values() if isinstance(outer, dict) else outer)
                 if isinstance(one, (dict, list))]


def json_object(body: bytes, what: str) -> Dict[str, Any]:
    """Return the members of a JSON object. Raises Malformed if `what` is not an object, has a
    duplicate name, a number that is infinite or larger than 64 bits, half of a surrogate pair, or
    too much depth."""
    try:
        text = body.decode("utf-8")
        value = _decode(text)
        if not isinstance(value, dict):
            raise ValueError(f"expected an object, got a {type(value).__name__}")
        if text.count("[") + text.count("{") > DEPTH:
            _check_depth(value)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise Malformed(f"{what} is not valid JSON: {error}") from None
    return value


def whole(value: object, most: int = 2**64 - 1) -> bool:
    """Whether it is a whole number from 0 to `most`, and not a boolean."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def texts(value: object) -> bool:
    """Whether it is a list of strings."""
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
