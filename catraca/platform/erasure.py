"""Removes a person from stored JSON: texts become null, and places are rounded to about a kilometre."""

import re
from typing import Any, Final, cast

import msgspec

from catraca.platform.redaction import is_personal

PLACE_DIGITS: Final = 2
# Keys of a coordinate: `lat`, `pickup_lon`, `passengerLng`.
COORDINATE: Final = re.compile(r"(^|.*_)(lat|lng|lon)|.*(Lat|Lng|Lon)")
# Keys of texts about a person that log lines may have, beside those of `is_personal`.
TEXTS: Final = frozenset({"note", "reason", "cancel_reason", "contact", "vehicle", "origin", "destination"})


def rounded_places(document: bytes) -> bytes:
    """The JSON document with rounded coordinates."""
    return msgspec.json.encode(_changed(msgspec.json.decode(document), erase_texts=False))


def erased_document(document: bytes) -> bytes:
    """The JSON document with rounded coordinates, without texts about persons; empty if it is no JSON."""
    try:
        value = msgspec.json.decode(document)
    except msgspec.DecodeError:
        return b""
    return msgspec.json.encode(_changed(value, erase_texts=True))


def _changed(value: Any, *, erase_texts: bool) -> Any:
    if isinstance(value, list):
        return [_changed(one, erase_texts=erase_texts) for one in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    members = cast(dict[str, Any], value)
    return {key: _changed_member(key, one, erase_texts=erase_texts) for key, one in members.items()}


def _changed_member(key: str, value: Any, *, erase_texts: bool) -> Any:
    if isinstance(value, float) and COORDINATE.fullmatch(key):
        return round(value, PLACE_DIGITS)
    if erase_texts and isinstance(value, str) and (key in TEXTS or is_personal(key)):
        return None
    return _changed(value, erase_texts=erase_texts)
