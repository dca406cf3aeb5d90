"""Communities over HTTP: created, changed, retired and found; each change is a version."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import pytest

from catraca.platform.database import Database
from tests.conftest import bearer
from tests.domains.communities.places import PRICES, community_body, post_community, ring, somewhere, square

PATH = "/v1/communities"


def path_of(community: dict[str, Any]) -> str:
    return f"{PATH}/{community['community_id']}"


def change_body(community: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The body of a change that keeps all other fields."""
    left_out = {"community_id", "retired", "changed_at"}
    return {key: value for key, value in community.items() if key not in left_out} | changes


async def read(api: httpx.AsyncClient, path: str, **query: Any) -> Any:
    answer = await api.get(path, params=query, headers=bearer())
    assert answer.status_code == 200, answer.text
    return answer.json()


async def change(api: httpx.AsyncClient, community: dict[str, Any], **changes: Any) -> httpx.Response:
    return await api.put(
        path_of(community), json=change_body(community, **changes), headers=bearer("operator")
    )


async def retire(api: httpx.AsyncClient, community: dict[str, Any]) -> httpx.Response:
    query = {"version": community["version"]}
    return await api.delete(path_of(community), params=query, headers=bearer("operator"))


async def found_at(api: httpx.AsyncClient, lat: float, lng: float) -> list[str]:
    found = await read(api, f"{PATH}/at", lat=lat, lng=lng)
    return [community["community_id"] for community in found["communities"]]


async def test_created_community_is_read_as_sent(api: httpx.AsyncClient) -> None:
    neighbour = (await post_community(api))["community_id"]
    body = community_body(
        id=str(uuid4()),
        name=" Vila do João ",
        tariff=PRICES,
        outside_tariff=PRICES | {"base_cents": 0},
        fallback=["neighbours", "open"],
        neighbour_ids=[neighbour],
        confirmation_ttl_seconds=90,
    )
    made = await post_community(api, **body)
    assert made == {
        **{key: value for key, value in body.items() if key != "id"},
        "community_id": body["id"],
        "name": "Vila do João",
        "version": 1,
        "retired": False,
        "changed_at": made["changed_at"],
    }
    assert await read(api, path_of(made)) == made


async def test_omitted_fields_get_defaults(api: httpx.AsyncClient) -> None:
    made = await post_community(api)
    assert UUID(made["community_id"])
    assert (made["tariff"], made["outside_tariff"], made["confirmation_ttl_seconds"]) == (None, None, None)
    assert (made["fallback"], made["neighbour_ids"]) == (["open"], [])


async def test_existing_id_is_refused(api: httpx.AsyncClient) -> None:
    made = await post_community(api)
    again = community_body(id=made["community_id"], name="Another")
    answer = await api.post(PATH, json=again, headers=bearer("operator"))
    assert (answer.status_code, answer.json()["code"]) == (409, "community_exists")
    assert await read(api, path_of(made)) == made


async def test_repeat_with_the_same_key_creates_one_community(api: httpx.AsyncClient) -> None:
    headers, body = bearer("operator") | {"idempotency-key": uuid4().hex}, community_body()
    first, second = [await api.post(PATH, json=body, headers=headers) for _ in range(2)]
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    lat, lng = body["fence"]["coordinates"][0][0][1], body["fence"]["coordinates"][0][0][0]
    assert await found_at(api, lat, lng) == [first.json()["community_id"]]


@pytest.mark.parametrize(
    ("wrong", "where", "code"),
    [
        ({"name": ""}, "body.name", "string_too_short"),
        ({"name": "  "}, "body.name", "string_pattern_mismatch"),
        ({"name": "\u200b"}, "body.name", "text_blank"),
        ({"name": "a\u202eb"}, "body.name", "string_pattern_mismatch"),
        ({"name": "x" * 101}, "body.name", "string_too_long"),
        ({"name": "\u0958" * 100}, "body.name", "text_too_long"),
        ({"tariff": {**PRICES, "base_cents": -1}}, "body.tariff.base_cents", "greater_than_equal"),
        ({"tariff": {**PRICES, "base_cents": 1.5}}, "body.tariff.base_cents", "int_type"),
        ({"outside_tariff": {"base_cents": 1}}, "body.outside_tariff.per_km_cents", "missing"),
        ({"fallback": ["open", "neighbours"]}, "body.fallback", "fallback_order"),
        ({"fallback": ["home"]}, "body.fallback.0", "literal_error"),
        ({"neighbour_ids": [str(UUID(int=1))] * 2}, "body.neighbour_ids", "repeated"),
        ({"neighbour_ids": [str(uuid4()) for _ in range(51)]}, "body.neighbour_ids", "too_long"),
        ({"confirmation_ttl_seconds": 0}, "body.confirmation_ttl_seconds", "greater_than_equal"),
        ({"confirmation_ttl_seconds": 86401}, "body.confirmation_ttl_seconds", "less_than_equal"),
        ({"id": "here"}, "body.id", "uuid_parsing"),
        ({"retired": True}, "body.retired", "extra_forbidden"),
    ],
)
async def test_invalid_field_is_refused(
    api: httpx.AsyncClient, wrong: dict[str, Any], where: str, code: str
) -> None:
    answer = await api.post(PATH, json=community_body(**wrong), headers=bearer("operator"))
    assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")
    assert (where, code) in [(error["where"], error["code"]) for error in answer.json()["errors"]]
    assert "This value is not valid here." not in [error["message"] for error in answer.json()["errors"]]


async def test_fence_faults_are_in_the_callers_language(api: httpx.AsyncClient) -> None:
    community = await post_community(api)
    bad = {"type": "Polygon", "coordinates": [ring()[:4], [[0, 95], *ring()]]}
    faults: dict[str, list[dict[str, str]]] = {}
    for language in ("en", "pt-BR"):
        headers = bearer("operator") | {"accept-language": language}
        made = await api.post(PATH, json=community_body(fence=bad), headers=headers)
        changed = await api.put(path_of(community), json=change_body(community, fence=bad), headers=headers)
        for answer in (made, changed):
            assert (answer.status_code, answer.json()["code"]) == (422, "fence_invalid")
            assert answer.headers["content-type"] == "application/problem+json"
        assert made.json()["faults"] == changed.json()["faults"]
        faults[language] = made.json()["faults"]
    assert faults["en"] == [
        {
            "where": "coordinates[0][3]",
            "code": "ring_not_closed",
            "message": "The ring is not closed: its last point must be the first again.",
        },
        {
            "where": "coordinates[1][0]",
            "code": "looks_swapped",
            "message": "The latitude is out of range. Longitude and latitude look swapped:"
            " GeoJSON has the longitude first.",
        },
    ]
    assert faults["pt-BR"][0]["message"] == "O anel não está fechado: o último ponto deve repetir o primeiro."
    assert await read(api, path_of(community)) == community


async def test_neighbours_must_be_other_existing_communities(api: httpx.AsyncClient) -> None:
    known, unknown, own = (await post_community(api))["community_id"], str(uuid4()), str(uuid4())
    answer = await api.post(
        PATH, json=community_body(neighbour_ids=[known, unknown]), headers=bearer("operator")
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "neighbour_unknown")
    assert answer.json()["neighbour_ids"] == [unknown]
    answer = await api.post(
        PATH, json=community_body(id=own, neighbour_ids=[own]), headers=bearer("operator")
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "neighbour_is_itself")
    community = await post_community(api, neighbour_ids=[known])
    answer = await change(api, community, neighbour_ids=[community["community_id"]])
    assert (answer.status_code, answer.json()["code"]) == (422, "neighbour_is_itself")


async def test_every_change_is_a_new_version(api: httpx.AsyncClient) -> None:
    first = await post_community(api, tariff=PRICES)
    lat, lng = somewhere()
    second = (await change(api, first, fence=square(lat, lng), tariff=None)).json()
    third = (await change(api, second, name="Vila Nova", fallback=[])).json()
    assert [community["version"] for community in (first, second, third)] == [1, 2, 3]
    assert await read(api, path_of(first)) == third
    for community in (first, second, third):
        assert await read(api, f"{path_of(first)}/versions/{community['version']}") == community
    page = await read(api, f"{path_of(first)}/versions", limit=2)
    assert page == {"versions": [third | {"fence": None}, second | {"fence": None}], "next": 2}
    page = await read(api, f"{path_of(first)}/versions", before=page["next"])
    assert page == {"versions": [first | {"fence": None}], "next": None}


async def test_one_of_many_concurrent_changes_succeeds(api: httpx.AsyncClient) -> None:
    community = await post_community(api)
    answers = await asyncio.gather(*(change(api, community, name=f"Vila {n}") for n in range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7
    (winner,) = [answer.json() for answer in answers if answer.status_code == 200]
    for answer in answers:
        if answer.status_code == 409:
            assert (answer.json()["code"], answer.json()["version"]) == ("community_changed", 2)
            assert "2" in answer.json()["detail"]
    assert await read(api, path_of(community)) == winner
    assert (await change(api, winner, name="The next")).status_code == 200


async def test_change_of_another_version_is_refused(api: httpx.AsyncClient) -> None:
    community = await post_community(api)
    for version in (2, 2**31 - 2):
        assert (await change(api, community | {"version": version})).json()["code"] == "community_changed"
    assert (await change(api, community | {"version": 2**31 - 1})).json()["code"] == "request_invalid"
    assert (await change(api, community | {"version": 0})).json()["code"] == "request_invalid"


async def test_retired_community_is_out_of_use_until_changed(
    api: httpx.AsyncClient,
) -> None:
    lat, lng = somewhere()
    community = await post_community(api, fence=square(lat, lng))
    own = community["community_id"]
    assert await found_at(api, lat, lng) == [own]
    answer = await retire(api, community)
    retired = answer.json()
    assert answer.status_code == 200
    assert retired == community | {"version": 2, "retired": True, "changed_at": retired["changed_at"]}
    assert await found_at(api, lat, lng) == []
    assert await read(api, path_of(community)) == retired
    assert (await retire(api, community)).json() == retired, "a repeat changes nothing"
    before = {"after": str(UUID(int=UUID(own).int - 1)), "limit": 1}
    shown = (await read(api, PATH, **before))["communities"]
    assert own not in [one["community_id"] for one in shown]
    (shown,) = (await read(api, PATH, retired="true", **before))["communities"]
    assert shown == retired | {"fence": None}
    back = (await change(api, retired)).json()
    assert (back["version"], back["retired"]) == (3, False)
    assert await found_at(api, lat, lng) == [own]


async def test_retiring_an_older_version_is_refused(api: httpx.AsyncClient) -> None:
    community = await post_community(api)
    changed = (await change(api, community, name="Changed")).json()
    answer = await retire(api, community)
    assert (answer.status_code, answer.json()["code"]) == (409, "community_changed")
    assert await read(api, path_of(community)) == changed


async def test_pages_list_all_with_optional_fences(api: httpx.AsyncClient) -> None:
    base = uuid4().int >> 8 << 8
    made = [await post_community(api, id=str(UUID(int=base + n))) for n in range(25)]
    first = await read(api, PATH, after=str(UUID(int=base - 1)), limit=3)
    assert first["communities"] == [community | {"fence": None} for community in made[:3]]
    assert first["next"] == made[2]["community_id"]
    second = await read(api, PATH, after=first["next"], limit=100, fences="true")
    assert second["communities"] == made[3:23], "a page with fences has at most 20"
    third = await read(api, PATH, after=second["next"], limit=2, fences="true")
    assert third["communities"] == made[23:]


async def test_place_is_in_every_fence_around_it_except_holes(api: httpx.AsyncClient) -> None:
    lat, lng = somewhere()
    hole = ring(lat + 0.004, lng + 0.004, size=0.002)
    large = await post_community(api, fence=square(lat, lng, size=0.05))
    holed = {"type": "Polygon", "coordinates": [ring(lat, lng), hole]}
    split = {"type": "MultiPolygon", "coordinates": [holed["coordinates"], [ring(lat + 0.02, lng)]]}
    small, parts = await post_community(api, fence=holed), await post_community(api, fence=split)
    ids = [community["community_id"] for community in (small, parts, large)]
    assert await found_at(api, lat + 0.001, lng + 0.001) == ids
    assert await found_at(api, lat + 0.005, lng + 0.005) == ids[2:]
    assert await found_at(api, lat + 0.025, lng + 0.005) == ids[1:]
    assert await found_at(api, lat - 0.001, lng) == []


@pytest.mark.parametrize("query", [{}, {"lat": 0}, {"lat": 91, "lng": 0}, {"lat": "nan", "lng": 0}])
async def test_place_needs_a_latitude_and_a_longitude(api: httpx.AsyncClient, query: dict[str, Any]) -> None:
    assert (await api.get(f"{PATH}/at", params=query, headers=bearer())).status_code == 422


async def test_unknown_community_is_not_found(api: httpx.AsyncClient) -> None:
    nowhere, operator = {"community_id": str(uuid4()), "version": 1}, bearer("operator")
    known = await post_community(api)
    answers = [
        await api.get(path_of(nowhere), headers=operator),
        await change(api, nowhere | community_body()),
        await retire(api, nowhere),
        await api.get(f"{path_of(nowhere)}/versions", headers=operator),
        await api.get(f"{path_of(nowhere)}/versions/1", headers=operator),
        await api.get(f"{path_of(known)}/versions/2", headers=operator),
    ]
    assert [answer.json()["code"] for answer in answers] == ["community_not_found"] * 6


async def test_changes_are_audited(api: httpx.AsyncClient, database: Database) -> None:
    operator = uuid4()
    headers = bearer("operator", operator)
    made = (await api.post(PATH, json=community_body(), headers=headers)).json()
    made = (await api.put(path_of(made), json=change_body(made, name="Changed"), headers=headers)).json()
    assert (await api.delete(path_of(made), params={"version": 2}, headers=headers)).status_code == 200
    async with database.connection() as db:
        rows = await db.fetch(
            "SELECT actor_id, action, data->>'version' AS version FROM audit_log WHERE subject_id = $1"
            " ORDER BY at",
            made["community_id"],
        )
    assert [tuple(row.values()) for row in rows] == [
        (operator, "community.created", "1"),
        (operator, "community.changed", "2"),
        (operator, "community.retired", "3"),
    ]


async def test_versions_cannot_be_changed_or_deleted(api: httpx.AsyncClient, database: Database) -> None:
    community = await post_community(api)
    own = UUID(community["community_id"])
    for statement in (
        "UPDATE community_versions SET name = 'other' WHERE community_id = $1",
        "DELETE FROM community_versions WHERE community_id = $1",
    ):
        with pytest.raises(asyncpg.CheckViolationError) as refused:
            async with database.transaction() as db:
                await db.execute(statement, own)
        assert refused.value.constraint_name == "versions_stay_as_they_were"
    assert await read(api, path_of(community)) == community


async def test_schema_refuses_version_gaps_and_a_wrong_newest(
    api: httpx.AsyncClient, database: Database
) -> None:
    own = UUID((await post_community(api))["community_id"])
    copied = (
        "INSERT INTO community_versions (community_id, version, name, fence, fallback, neighbour_ids)"
        " SELECT community_id, $2, name, fence, fallback, neighbour_ids FROM community_versions"
        " WHERE community_id = $1 AND version = 1"
    )
    with pytest.raises(asyncpg.ForeignKeyViolationError) as refused:
        async with database.transaction() as db:
            await db.execute(copied, own, 3)
    assert refused.value.constraint_name == "versions_follow_each_other"
    with pytest.raises(asyncpg.ForeignKeyViolationError) as refused:
        async with database.transaction() as db:
            await db.execute("UPDATE communities SET version = 2 WHERE id = $1", own)
    assert refused.value.constraint_name == "communities_are_their_newest_version"
