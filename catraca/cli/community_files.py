"""Files of communities, a GeoJSON feature each: read with every fault told, and written as they are read."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from catraca.cli.failures import REFUSED, fail

if TYPE_CHECKING:
    from pydantic import ValidationError

    from catraca.domains.communities import Community, Wanted
    from catraca.domains.communities.schemas import CommunityFeatureIn

MOST_BYTES = 64 * 1024 * 1024


@dataclass
class ReadFile:
    """What a file says, feature by feature; `faults` are lines to be shown."""

    wanted: "list[Wanted]" = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    # By their names, how many features have properties that nobody here knows.
    ignored: Counter[str] = field(default_factory=Counter)
    # Which feature names which community: its number, counted from 1.
    numbers: dict[UUID, int] = field(default_factory=dict)

    def add_fault(self, number: int, name: object, where: str, message: str) -> None:
        called = f' "{plain(name)}"' if isinstance(name, str) else ""
        self.faults.append(f"feature {number}{called}: {where}: {message}")


def features_of(source: str, content: bytes) -> list[object]:
    """The features of a collection; anything else ends the command."""
    if len(content) > MOST_BYTES:
        fail(f"{source} is too large: at most {MOST_BYTES // 1024 // 1024} MiB", REFUSED)
    try:
        found: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        fail(f"{source} is not JSON: {error}", REFUSED)
    collection = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    features = collection.get("features")
    if collection.get("type") != "FeatureCollection" or not isinstance(features, list):
        fail(f"{source} is not a GeoJSON FeatureCollection", REFUSED)
    return cast("list[object]", features)


def read_features(features: Sequence[object], tell: Callable[[], object]) -> ReadFile:
    """Check them all, however many are faulty."""
    read = ReadFile()
    for number, feature in enumerate(features, 1):
        _read_feature(read, number, feature)
        tell()
    return read


def _read_feature(read: ReadFile, number: int, feature: object) -> None:
    from catraca.domains.communities import FenceInvalid, NeighbourIsItself, Wanted, check_fence
    from catraca.platform.texts import text

    known = cast("dict[str, Any]", feature) if isinstance(feature, dict) else {}
    if known.get("type") != "Feature":
        read.add_fault(number, None, "type", "This is not a GeoJSON Feature.")
        return
    properties = (
        cast("dict[str, Any]", known["properties"]) if isinstance(known.get("properties"), dict) else {}
    )
    name = properties.get("name")
    said = _said(read, number, known, properties)
    try:
        fence = check_fence(known.get("geometry"), language="en")
    except FenceInvalid as invalid:
        for fault in cast("list[dict[str, str]]", invalid.data["faults"]):
            read.add_fault(number, name, f"geometry.{fault['where']}", fault["message"])
        return
    if said is None:
        return
    rules = said.to_rules(retired=said.retired)
    if said.community_id in rules.neighbour_ids:
        words = text(f"refusals.{NeighbourIsItself.code}", "en")
        read.add_fault(number, name, "properties.neighbour_ids", words)
    other = read.numbers.setdefault(said.community_id, number)
    if other != number:
        words = f"Feature {other} has the same {'id' if said.id else 'name, and neither has an id'}."
        read.add_fault(number, name, "id", words)
    read.wanted.append(Wanted(id=said.community_id, rules=rules, fence=fence))


def _said(
    read: ReadFile, number: int, feature: dict[str, Any], properties: dict[str, Any]
) -> "CommunityFeatureIn | None":
    """What the feature says beside its geometry; empty columns are not said."""
    from pydantic import ValidationError

    from catraca.domains.communities.schemas import CommunityFeatureIn

    known = CommunityFeatureIn.model_fields.keys() - {"id", "fence"}
    read.ignored.update(properties.keys() - known)
    said = {key: properties[key] for key in known if properties.get(key) is not None}
    try:
        return CommunityFeatureIn(fence=None, id=feature.get("id"), **said)
    except ValidationError as error:
        for where, message in _told(error):
            read.add_fault(number, properties.get("name"), where, message)
        return None


def _told(error: "ValidationError") -> Iterator[tuple[str, str]]:
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
    """As a file, a line each, so that two of them can be compared."""
    lines = ",\n".join(_feature(community, fence) for community, fence in found)
    return f'{{"type": "FeatureCollection", "features": [\n{lines}\n]}}\n'


def _feature(community: "Community", fence: str) -> str:
    from catraca.domains.communities.schemas import CommunityOut

    seen = CommunityOut.of(community, fence).model_dump(mode="json")
    left_out = {"community_id", "version", "changed_at", "fence"}
    feature = {
        "type": "Feature",
        "id": seen["community_id"],
        "properties": {key: value for key, value in seen.items() if key not in left_out},
        "geometry": seen["fence"],
    }
    return json.dumps(feature, ensure_ascii=False)


def plain(text: str) -> str:
    """Without what a terminal would obey."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in text)
