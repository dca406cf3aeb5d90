"""Strict JSON bodies: refuses what PostgreSQL or another parser could not read in the same way."""

import json
import re
import sys
from typing import Any

from fastapi import Request
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect

from catraca.platform.errors import BodyMalformed, MediaTypeUnsupported

MAX_DEPTH = 32
MAX_NUMBER = {int: 2**63 - 1, float: sys.float_info.max, bool: 1}

# Only values of bodies with these need an inspection, and few have them: escaped characters, many digits,
# large exponents.
_SUSPECT = re.compile(rb"\\u|\d{16}|[eE]\+?\d{3}")
_SURROGATE = re.compile("[\ud800-\udfff]")


class JsonRequest(Request):
    """A request whose body, if it is read as JSON, must be unambiguous UTF-8 JSON."""

    async def body(self) -> bytes:
        """The whole body. Reads one message in most cases, without Starlette's generators."""
        if not hasattr(self, "_content"):
            content = b""
            more = True
            while more:
                message = await self.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                content += message.get("body", b"")
                more = message.get("more_body", False)
            self._content = content
        return self._content

    async def json_body(self) -> bytes:
        """The body; refused if its headers do not announce JSON."""
        body = await self.body()
        if body and not is_plain_json(self.headers):
            raise MediaTypeUnsupported
        return body

    async def json(self) -> Any:
        if not hasattr(self, "_value"):
            self._value = parse_json(await self.json_body())
        return self._value


def is_plain_json(headers: Headers) -> bool:
    """True if the headers announce uncompressed JSON in UTF-8."""
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        return False
    media_type, *parameters = headers.get("content-type", "").lower().split(";")
    media_type = media_type.strip()
    if media_type != "application/json" and not (
        media_type.startswith("application/") and media_type.endswith("+json")
    ):
        return False
    for parameter in parameters:
        name, _, value = parameter.strip().partition("=")
        if name == "charset" and value.strip('"') not in ("utf-8", "utf8"):
            return False
    return True


def parse_json(body: bytes) -> Any:
    """The value in `body`. Raises `BodyMalformed` with a reason, without quoting the body."""
    try:
        value = _DECODER.decode(body.decode("utf-8"))
    except RecursionError as error:
        raise BodyMalformed(reason="nested_too_deeply") from error
    except UnicodeDecodeError as error:
        raise BodyMalformed(reason="not_utf8") from error
    except json.JSONDecodeError as error:
        raise BodyMalformed(reason="not_json", position=error.pos) from None  # the error quotes the body
    except ValueError as error:
        raise BodyMalformed(reason="number_too_large") from error
    is_suspect = _SUSPECT.search(body) is not None
    if is_suspect or body.count(b"{") + body.count(b"[") > MAX_DEPTH:
        _inspect(value, scalars=is_suspect)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BodyMalformed(reason="duplicate_key")
    return found


def _no_constant(_: str) -> Any:
    raise BodyMalformed(reason="number_not_finite")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def _inspect(value: Any, *, scalars: bool) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise BodyMalformed(reason="nested_too_deeply")
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.keys())  # pyright: ignore[reportUnknownArgumentType]
                below.extend(item.values())  # pyright: ignore[reportUnknownArgumentType]
            elif isinstance(item, list):
                below.extend(item)  # pyright: ignore[reportUnknownArgumentType]
            elif scalars:
                _inspect_scalar(item)
        level = below


def _inspect_scalar(value: str | float | bool | None) -> None:
    if isinstance(value, str):
        if "\0" in value:
            raise BodyMalformed(reason="nul_character")
        if _SURROGATE.search(value):
            raise BodyMalformed(reason="lone_surrogate")
    elif isinstance(value, (int, float)) and not abs(value) <= MAX_NUMBER[type(value)]:
        raise BodyMalformed(reason="number_too_large")
