"""Files of communities, one GeoJSON feature each: read with all faults, and written in the same form."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from catraca.cli.failures import REFUSED, fail

if TYPE_CHECKING:
    from pydantic import ValidationError

    from catraca.domains.communities import Community, CommunityDraft
    from catraca.domains.communities.schemas import CommunityFeatureIn

MAX_BYTES = 64 * 1024 * 1024


@dataclass
class ReadFile:
    """A file's features; `faults` are lines to print."""

    drafts: "list[CommunityDraft]" = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    # Unknown properties: how many features have each.
    ignored: Counter[str] = field(default_factory=Counter)
    # The number of each community's feature, from 1.
    numbers: dict[UUID, int] = field(default_factory=dict)

    def add_fault(self, number: int, name: object, where: str, message: str) -> None:
        called = f' "{plain(name)}"' if isinstance(name, str) else ""
        self.faults.append(f"feature {number}{called}: {where}: {message}")


def features_of(source: str, content: bytes) -> list[object]:
    """The features of a collection; other content ends the command."""
    if len(content) > MAX_BYTES:
        fail(f"{source} is too large: at most {MAX_BYTES // 1024 // 1024} MiB", REFUSED)
    try:
        found: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        fail(f"{source} is not JSON: {error}", REFUSED)
    collection = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    features = collection.get("features")
    if collection.get("type") != "FeatureCollection" or not isinstance(features, list):
        fail(f"{source} is not a GeoJSON FeatureCollection", REFUSED)
    return cast("list[object]", features)


def read_features(features: Sequence[object], on_each: Callable[[], object]) -> ReadFile:
    """Check all features, also after a fault."""
    read = ReadFile()
    for number, feature in enumerate(features, 1):
        _read_feature(read, number, feature)
        on_each()
    return read


def _read_feature(read: ReadFile, number: int, feature: object) -> None:
    from catraca.domains.communities import CommunityDraft
    from catraca.domains.communities.errors import FenceInvalid, NeighbourIsItself
    from catraca.domains.communities.service import check_fence
    from catraca.platform.texts import text

    known = cast("dict[str, Any]", feature) if isinstance(feature, dict) else {}
    if known.get("type") != "Feature":
        read.add_fault(number, None, "type", "This is not a GeoJSON Feature.")
        return
    properties = (
        cast("dict[str, Any]", known["properties"]) if isinstance(known.get("properties"), dict) else {}
    )
    name = properties.get("name")
    fields = _read_properties(read, number, known, properties)
    try:
        fence = check_fence(known.get("geometry"), language="en")
    except FenceInvalid as invalid:
        for fault in cast("list[dict[str, str]]", invalid.data["faults"]):
            read.add_fault(number, name, f"geometry.{fault['where']}", fault["message"])
        return
    if fields is None:
        return
    rules = fields.to_rules(retired=fields.retired)
    if fields.community_id in rules.neighbour_ids:
        words = text(f"refusals.{NeighbourIsItself.code}", "en")
        read.add_fault(number, name, "properties.neighbour_ids", words)
    other = read.numbers.setdefault(fields.community_id, number)
    if other != number:
        words = f"Feature {other} has the same {'id' if fields.id else 'name, and neither has an id'}."
        read.add_fault(number, name, "id", words)
    read.drafts.append(CommunityDraft(id=fields.community_id, rules=rules, fence=fence))


def _read_properties(
    read: ReadFile, number: int, feature: dict[str, Any], properties: dict[str, Any]
) -> "CommunityFeatureIn | None":
    """The feature without its geometry; empty properties count as omitted."""
    from pydantic import ValidationError

    from catraca.domains.communities.schemas import CommunityFeatureIn

    known = CommunityFeatureIn.model_fields.keys() - {"id", "fence"}
    read.ignored.update(properties.keys() - known)
    sent = {key: properties[key] for key in known if properties.get(key) is not None}
    try:
        return CommunityFeatureIn(fence=None, id=feature.get("id"), **sent)
    except ValidationError as error:
        for where, message in _faults_of(error):
            read.add_fault(number, properties.get("name"), where, message)
        return None


def _faults_of(error: "ValidationError") -> Iterator[tuple[str, str]]:
    from catraca.platform.texts import text, words

    for wrong in error.errors(include_url=False, include_input=False):
        key = f"validation.{wrong['type']}"
        message = text(key, "en", wrong.get("ctx", {})) if key in words("en") else wrong["msg"]
        where = ".".join(str(part) for part in wrong["loc"])
        if where == "id":
            yield where, f"{message} Or leave it out: the name then makes one."
        else:
            yield f"properties.{where}", message


def collection_of(found: "Sequence[tuple[Community, str]]") -> str:
    """A file with one line for each community, so that two files can be compared."""
    lines = ",\n".join(_feature(community, fence) for community, fence in found)
    return f'{{"type": "FeatureCollection", "features": [\n{lines}\n]}}\n'


def _feature(community: "Community", fence: str) -> str:
    from catraca.domains.communities.schemas import CommunityOut

    shown = CommunityOut.of(community, fence).model_dump(mode="json")
    left_out = {"community_id", "version", "changed_at", "fence"}
    feature = {
        "type": "Feature",
        "id": shown["community_id"],
        "properties": {key: value for key, value in shown.items() if key not in left_out},
        "geometry": shown["fence"],
    }
    return json.dumps(feature, ensure_ascii=False)


def plain(text: str) -> str:
    """Replace control characters, which a terminal would interpret."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in text)
