"""JSON bodies, read strictly: what PostgreSQL or a careful reader could not take is refused here."""

import json
from typing import Any

from fastapi import Request

from catraca.platform.errors import BodyMalformed, MediaTypeUnsupported

MAX_DEPTH = 32


class StrictRequest(Request):
    """A request whose JSON has no duplicate keys, no NaN, no NUL, no lone surrogates and bounded depth."""

    async def json(self) -> Any:
        if not hasattr(self, "_strict_json"):
            media_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
            if media_type != "application/json" and not media_type.endswith("+json"):
                raise MediaTypeUnsupported
            self._strict_json = parse_json(await self.body())
        return self._strict_json


def parse_json(body: bytes) -> Any:
    """The value `body` holds, or a `BodyMalformed` that says why not, without quoting it."""
    try:
        value = json.loads(body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError as error:
        raise BodyMalformed(reason="nested too deeply") from error
    except UnicodeDecodeError as error:
        raise BodyMalformed(reason="not UTF-8") from error
    except json.JSONDecodeError as error:
        raise BodyMalformed(reason=f"not JSON at character {error.pos}") from error
    except ValueError as error:
        raise BodyMalformed(reason="a number has too many digits") from error
    # Only escapes can bring in what decoding does not already refuse, and few bodies have any.
    if b"\\u" in body or body.count(b"{") + body.count(b"[") > MAX_DEPTH:
        _inspect(value)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BodyMalformed(reason="a key appears twice")
    return found


def _no_constant(name: str) -> Any:
    raise BodyMalformed(reason=f"{name} is not a JSON number")


def _inspect(value: Any) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise BodyMalformed(reason="nested too deeply")
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                _inspect_text(item)
            elif isinstance(item, dict):
                below.extend(item.keys())  # pyright: ignore[reportUnknownArgumentType]
                below.extend(item.values())  # pyright: ignore[reportUnknownArgumentType]
            elif isinstance(item, list):
                below.extend(item)  # pyright: ignore[reportUnknownArgumentType]
        level = below


def _inspect_text(text: str) -> None:
    if "\0" in text:
        raise BodyMalformed(reason="text holds a NUL character")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise BodyMalformed(reason="text holds half a character (a lone surrogate)")
