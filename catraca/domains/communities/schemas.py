"""What communities' routes and files take and give."""

import json
import unicodedata
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID, uuid5

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from catraca.domains.communities.model.community import (
    MOST_NEIGHBOURS,
    Community,
    CommunityId,
    Fallback,
    Prices,
    Rules,
)
from catraca.domains.communities.model.rings import FEWEST_RING_POINTS, MOST_POINTS

NAMED_COMMUNITIES = UUID("2f6b54a5-2d0c-4f0e-9a53-7f2b0a6f9c1e")
NAME_MAX_CHARACTERS = 100
# Left out is what can make a name look like another: control characters, line breaks, turned directions.
_LEFT_OUT = r"\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069"
NAME_PATTERN = rf"^[^{_LEFT_OUT}]*[^\s{_LEFT_OUT}][^{_LEFT_OUT}]*$"
# The version after it must fit into the database's integer.
LAST_VERSION = 2**31 - 2
FALLBACKS: list[list[Fallback]] = [[], ["open"], ["neighbours"], ["neighbours", "open"]]

_POSITION: JsonDict = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 3}
_RING: JsonDict = {"type": "array", "items": _POSITION, "minItems": FEWEST_RING_POINTS}
_RINGS: JsonDict = {"type": "array", "items": _RING, "minItems": 1}


def _geometry(kind: str, coordinates: JsonDict) -> JsonDict:
    properties: JsonDict = {"type": {"const": kind}, "coordinates": coordinates}
    return {"type": "object", "properties": properties, "required": ["type", "coordinates"]}


FENCE: JsonDict = {
    "title": "Fence",
    "oneOf": [
        _geometry("Polygon", _RINGS),
        _geometry("MultiPolygon", {"type": "array", "items": _RINGS, "minItems": 1}),
    ],
}
SQUARE: JsonDict = {
    "type": "Polygon",
    "coordinates": [
        [[-46.64, -23.56], [-46.62, -23.56], [-46.62, -23.54], [-46.64, -23.54], [-46.64, -23.56]]
    ],
}
PRICES: JsonDict = {"base_cents": 400, "per_km_cents": 150, "per_minute_cents": 25, "minimum_cents": 700}
SE: JsonDict = {
    "name": "Comunidade da Sé",
    "fence": SQUARE,
    "tariff": PRICES,
    "outside_tariff": None,
    "fallback": ["neighbours", "open"],
    "neighbour_ids": [],
    "confirmation_ttl_seconds": None,
}
SEEN: JsonDict = {
    "community_id": "0198a8b2-3c00-7000-8000-000000000003",
    "version": 1,
    **SE,
    "retired": False,
    "changed_at": "2025-08-14T12:00:00Z",
}


def _clean_name(name: str) -> str:
    """Composed and trimmed: two spellings that look the same are the same."""
    name = unicodedata.normalize("NFC", name).strip()
    if len(name) > NAME_MAX_CHARACTERS:  # composing may lengthen
        raise PydanticCustomError("text_too_long", "text_too_long")
    if all(unicodedata.category(character) in ("Cf", "Zs") for character in name):
        raise PydanticCustomError("text_blank", "text_blank")
    return name


def _in_order(fallback: list[Fallback]) -> list[Fallback]:
    if fallback not in FALLBACKS:
        raise PydanticCustomError("fallback_order", "fallback_order")
    return fallback


def _each_once(ids: list[UUID]) -> list[UUID]:
    if len(set(ids)) < len(ids):
        raise PydanticCustomError("repeated", "repeated")
    return ids


Name = Annotated[
    str,
    Field(min_length=1, max_length=NAME_MAX_CHARACTERS, pattern=NAME_PATTERN),
    AfterValidator(_clean_name),
]
Cents = Annotated[int, Field(strict=True, ge=0, le=1_000_000)]
Version = Annotated[int, Field(ge=1, le=LAST_VERSION)]


class Body(BaseModel):
    """A request's body: fields we do not know are refused, not ignored."""

    model_config = ConfigDict(extra="forbid")


class Tariff(Body):
    """What a ride costs, in hundredths of the currency that all share."""

    model_config = ConfigDict(json_schema_extra={"examples": [PRICES]})

    base_cents: Cents
    per_km_cents: Cents
    per_minute_cents: Cents
    minimum_cents: Cents

    @classmethod
    def of(cls, prices: Prices | None) -> Self | None:
        if prices is None:
            return None
        return cls(
            base_cents=prices.base_cents,
            per_km_cents=prices.per_km_cents,
            per_minute_cents=prices.per_minute_cents,
            minimum_cents=prices.minimum_cents,
        )

    def to_prices(self) -> Prices:
        return Prices(**self.model_dump())


class CommunityFields(Body):
    """All of a community but its id: what is left out is as if it had never been said."""

    name: Name
    fence: Annotated[Any, WithJsonSchema(FENCE)] = Field(
        description=f"GeoJSON (RFC 7946), the longitude first, with at most {MOST_POINTS:,} points."
        " Holes are left out of the community. Rings may turn either way."
    )
    tariff: Tariff | None = Field(default=None, description="Null: as everywhere.")
    outside_tariff: Tariff | None = Field(
        default=None, description="For rides its own drivers could not take. Null: the same."
    )
    fallback: Annotated[
        list[Fallback], AfterValidator(_in_order), WithJsonSchema({"type": "array", "enum": FALLBACKS})
    ] = Field(
        default=["open"],
        description="Whom a passenger is asked about when nobody is there, in this order."
        " Empty: nobody, the ride waits for the community's own.",
    )
    neighbour_ids: Annotated[list[UUID], AfterValidator(_each_once)] = Field(
        default=[],
        max_length=MOST_NEIGHBOURS,
        json_schema_extra={"uniqueItems": True},
        description="Communities whose drivers are asked next.",
    )
    confirmation_ttl_seconds: Annotated[int, Field(strict=True, ge=1, le=86_400)] | None = Field(
        default=None, description="How long a passenger may think. Null: as the setting says."
    )

    def to_rules(self, *, retired: bool = False) -> Rules:
        return Rules(
            name=self.name,
            tariff=self.tariff and self.tariff.to_prices(),
            outside_tariff=self.outside_tariff and self.outside_tariff.to_prices(),
            fallback=tuple(self.fallback),
            neighbour_ids=tuple(CommunityId(one) for one in self.neighbour_ids),
            confirmation_ttl_seconds=self.confirmation_ttl_seconds,
            retired=retired,
        )


class CommunityIn(CommunityFields):
    model_config = ConfigDict(json_schema_extra={"examples": [SE]})

    id: UUID | None = Field(default=None, description="Left out: a new one.")


class CommunityChangeIn(CommunityFields):
    model_config = ConfigDict(json_schema_extra={"examples": [{**SE, "version": 1}]})

    version: Version = Field(strict=True, description="The one you read: nobody has changed it since.")


class CommunityFeatureIn(CommunityFields):
    """A GeoJSON feature: its id, its properties, and its geometry as the fence."""

    id: UUID | None = None
    retired: bool = False

    @property
    def community_id(self) -> CommunityId:
        """Without an id it is its name: the same file names the same community again."""
        return CommunityId(self.id or uuid5(NAMED_COMMUNITIES, self.name))


class CommunityOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [SEEN]})

    community_id: UUID
    version: int = Field(description="Counts up with every change; all of them are kept.")
    name: str
    fence: Annotated[Any, WithJsonSchema({"oneOf": [FENCE, {"type": "null"}]})] = Field(
        description="GeoJSON; null where only the rest was asked for."
    )
    tariff: Tariff | None
    outside_tariff: Tariff | None
    fallback: list[Fallback]
    neighbour_ids: list[UUID]
    confirmation_ttl_seconds: int | None
    retired: bool = Field(description="It is not in use any more: no place is in it.")
    changed_at: datetime

    @classmethod
    def of(cls, community: Community, fence: str | None = None) -> Self:
        rules = community.rules
        return cls(
            community_id=community.id,
            version=community.version,
            name=rules.name,
            fence=None if fence is None else json.loads(fence),
            tariff=Tariff.of(rules.tariff),
            outside_tariff=Tariff.of(rules.outside_tariff),
            fallback=list(rules.fallback),
            neighbour_ids=list(rules.neighbour_ids),
            confirmation_ttl_seconds=rules.confirmation_ttl_seconds,
            retired=rules.retired,
            changed_at=community.changed_at,
        )


class CommunitiesOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"communities": [{**SEEN, "fence": None}]}]})

    communities: list[CommunityOut]


class CommunityPage(CommunitiesOut):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"communities": [{**SEEN, "fence": None}], "next": None}]}
    )

    next: UUID | None = Field(description="Ask for what follows with `after` set to this; null at the end.")

    @classmethod
    def of(cls, found: Sequence[tuple[Community, str | None]], *, limit: int) -> Self:
        """From one more than the page takes: what is left over says that there is a next page."""
        shown = [CommunityOut.of(community, fence) for community, fence in found[:limit]]
        return cls(communities=shown, next=shown[-1].community_id if len(found) > limit else None)


class VersionPage(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"versions": [{**SEEN, "fence": None}], "next": None}]}
    )

    versions: list[CommunityOut]
    next: int | None = Field(description="Ask for older ones with `before` set to this; null at the end.")

    @classmethod
    def of(cls, found: Sequence[Community], *, limit: int) -> Self:
        shown = [CommunityOut.of(community) for community in found[:limit]]
        return cls(versions=shown, next=shown[-1].version if len(found) > limit else None)
