"""`catraca communities`: import and export of fences, on a real database."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings

from catraca.cli.community_files import collection_of, features_of, read_features
from catraca.domains import communities
from catraca.domains.communities import CommunityId, Rules, import_communities
from catraca.domains.communities.service import (
    ImportResult,
    all_communities,
    check_fence,
    create_community,
    get_community,
)
from catraca.platform.database import Database
from catraca.platform.texts import text
from tests.cli.shell import Machine
from tests.domains.communities.places import PRICES, ring, somewhere, square, valid_fences
from tests.servers import Stack
from tests.support.examples import examples

# The service is tested on its own; the commands do not depend on the server.
pytestmark = pytest.mark.parametrize("stack", ["embedded"], indirect=True, scope="session")

EXAMPLE = Path(__file__).parents[2] / "docs/examples/communities.geojson"


@dataclass
class FenceMachine(Machine):
    """A database without communities, and the command on it."""

    command = ("communities",)
    database: Database

    async def import_by_shell(
        self, *features: object, options: tuple[object, ...] = ()
    ) -> tuple[int, str, str]:
        return await self.run("import", "-", *options, stdin=json.dumps(collection(*features)))

    async def import_directly(self, *features: object) -> list[str]:
        """Import without the shell, which is slow; returns the outcomes."""
        read = read_features(features, lambda: None)
        assert read.faults == []
        async with self.database.transaction() as db:
            outcomes = await import_communities(db, read.drafts, by=None, dry_run=False, on_each=lambda: None)
        return [one.outcome for one in outcomes]

    async def count(self) -> int:
        async with self.database.connection() as db:
            return await db.fetchval("SELECT count(*) FROM community_versions")

    async def named(self, name: str) -> communities.Community:
        async with self.database.connection() as db:
            (found,) = [one for one, _ in await all_communities(db) if one.rules.name == name]
            return found


def collection(*features: object) -> dict[str, Any]:
    return {"type": "FeatureCollection", "features": list(features)}


def feature(name: str, own: UUID | None = None, *, geometry: object = None, **properties: Any) -> Any:
    return {
        "type": "Feature",
        **({} if own is None else {"id": str(own)}),
        "properties": {"name": name, **properties},
        "geometry": geometry or square(*somewhere()),
    }


@pytest.fixture(scope="module")
async def url(stack: Stack) -> str:
    return await stack.migrated_database(f"fences-{uuid4().hex[:8]}")


async def delete_communities(database: Database) -> None:
    async with database.connection() as db:
        # In this mode the triggers of append-only tables allow to empty them with the communities.
        await db.execute(
            "SET session_replication_role = replica; TRUNCATE communities, community_versions CASCADE;"
            " RESET session_replication_role"
        )


@pytest.fixture
async def machine(url: str, tmp_path: Path) -> AsyncIterator[FenceMachine]:
    database = await Database.open(url)
    await delete_communities(database)
    yield FenceMachine(url, tmp_path, database)
    await database.close()


async def test_example_is_imported_once_and_exported_unchanged(machine: FenceMachine) -> None:
    code, output, errors = await machine.run("import", EXAMPLE, "--dry-run")
    assert (code, output.splitlines()[-1], errors) == (0, "Would be: 3 created, 0 changed, 0 unchanged.", "")
    assert await machine.count() == 0
    code, output, _ = await machine.run("import", EXAMPLE)
    assert (code, output.splitlines()[-1]) == (0, "3 created, 0 changed, 0 unchanged.")
    assert "Comunidade da Sé" in output
    assert (await machine.run("export", "out.geojson"))[:2] == (0, "")
    exported = (machine.folder / "out.geojson").read_text()
    assert (await machine.run("import", EXAMPLE))[1] == "0 created, 0 changed, 3 unchanged.\n"
    assert (await machine.run("import", "out.geojson"))[1] == "0 created, 0 changed, 3 unchanged.\n"
    assert await machine.count() == 3
    await delete_communities(machine.database)
    assert await machine.import_directly(*json.loads(exported)["features"]) == ["created"] * 3
    assert (await machine.run("export"))[1] == exported


async def test_only_changed_communities_get_a_version(machine: FenceMachine) -> None:
    centre, outskirts = feature("Centro", tariff=PRICES), feature("Arrabalde")
    assert await machine.import_directly(centre, outskirts) == ["created", "created"]
    centre["properties"]["tariff"] = PRICES | {"base_cents": 1}
    assert await machine.import_directly(outskirts, centre, feature("Praia")) == [
        "unchanged",
        "changed",
        "created",
    ]
    assert (await machine.named("Centro")).version == 2
    assert (await machine.named("Arrabalde")).version == 1
    outskirts["geometry"] = square(*somewhere())
    code, output, _ = await machine.import_by_shell(centre, outskirts)
    assert (code, output.splitlines()[-1]) == (0, "0 created, 1 changed, 1 unchanged.")


async def test_file_retires_and_restores_a_community(machine: FenceMachine) -> None:
    centre = feature("Centro")
    retired = feature("Centro", geometry=centre["geometry"], retired=True)
    assert await machine.import_directly(centre) == ["created"]
    assert await machine.import_directly(retired) == ["changed"]
    assert (await machine.named("Centro")).rules.retired
    assert await machine.import_directly(retired) == ["unchanged"]
    assert await machine.import_directly(centre) == ["changed"]
    assert not (await machine.named("Centro")).rules.retired


async def test_feature_without_id_is_found_by_name(machine: FenceMachine) -> None:
    one = feature("Vila São João")
    other = feature("Vila Sa\u0303o Joa\u0303o ", geometry=one["geometry"])
    assert await machine.import_directly(one) == ["created"]
    assert await machine.import_directly(other) == ["unchanged"]


async def test_neighbours_may_be_later_in_the_file_or_existing(machine: FenceMachine) -> None:
    first, second, before = uuid4(), uuid4(), uuid4()
    assert await machine.import_directly(feature("Before", before)) == ["created"]
    neighbours = [str(second), str(before)]
    outcomes = await machine.import_directly(
        feature("First", first, neighbour_ids=neighbours, fallback=["neighbours"]),
        feature("Second", second, neighbour_ids=[str(first)]),
    )
    assert outcomes == ["created", "created"]
    assert (await machine.named("First")).rules.neighbour_ids == (second, before)


async def test_all_faults_are_listed_and_nothing_is_written(machine: FenceMachine) -> None:
    own, unknown = uuid4(), uuid4()
    code, output, errors = await machine.import_by_shell(
        feature("Good", own),
        {"type": "Polygon"},
        feature(
            "Bad", geometry={"type": "Polygon", "coordinates": [ring()[:4], [[0, 0]]]}, fallback=["home"]
        ),
        {"type": "Feature", "id": 7, "properties": None, "geometry": None},
        feature("Twin", own),
        feature("Same"),
        feature("Same"),
        feature("Own", owner := uuid4(), neighbour_ids=[str(owner)]),
        feature("Priced", tariff={"base_cents": "5"}),
        feature("\x1b[31mNaN", geometry={"type": "Polygon", "coordinates": [[[float("nan"), 0], *ring()]]}),
        feature("Lonely", neighbour_ids=[str(unknown)]),
    )
    assert (code, output) == (1, "")
    assert errors.splitlines() == [
        "feature 2: type: This is not a GeoJSON Feature.",
        "feature 3 \"Bad\": properties.fallback.0: Must be one of: 'neighbours' or 'open'.",
        f'feature 3 "Bad": geometry.coordinates[0][3]: {text("fences.ring_not_closed", "en")}',
        f'feature 3 "Bad": geometry.coordinates[1]: {text("fences.ring_too_short", "en")}',
        "feature 4: properties.name: This field is required.",
        "feature 4: id: Send a UUID. Or leave it out: the name then makes one.",
        "feature 4: geometry.type: This is not a GeoJSON geometry of type Polygon or MultiPolygon.",
        'feature 5 "Twin": id: Feature 1 has the same id.',
        'feature 7 "Same": id: Feature 6 has the same name, and neither has an id.',
        f'feature 8 "Own": properties.neighbour_ids: {text("refusals.neighbour_is_itself", "en")}',
        'feature 9 "Priced": properties.tariff.base_cents: Send a whole number.',
        'feature 9 "Priced": properties.tariff.per_km_cents: This field is required.',
        'feature 9 "Priced": properties.tariff.per_minute_cents: This field is required.',
        'feature 9 "Priced": properties.tariff.minimum_cents: This field is required.',
        'feature 10 "\ufffd[31mNaN": properties.name: This does not have the expected form.',
        'feature 10 "\ufffd[31mNaN": geometry.coordinates[0][0]: A point is made of finite numbers.',
        "catraca: nothing was changed: 16 faults",
    ]
    code, output, errors = await machine.import_by_shell(
        feature("Good", own), feature("Lonely", neighbour_ids=[str(own), str(unknown)])
    )
    assert (code, output) == (1, "")
    assert errors.splitlines() == [
        f'feature 2 "Lonely": properties.neighbour_ids: {unknown} is no community, here or in the file.',
        "catraca: nothing was changed: 1 fault",
    ]
    assert await machine.count() == 0


async def test_unknown_properties_are_reported_and_empty_ones_ignored(machine: FenceMachine) -> None:
    code, _, errors = await machine.import_by_shell(
        feature("One", osm_id=7, tariff=None, fallback=None), feature("Two", osm_id=8)
    )
    assert (code, errors) == (0, 'the property "osm_id" is not known, and ignored (2 times)\n')
    assert (await machine.named("One")).rules == Rules(name="One")


async def test_import_is_audited_with_its_actor(machine: FenceMachine) -> None:
    one, other, operator = uuid4(), uuid4(), uuid4()
    assert await machine.import_directly(feature("One", one)) == ["created"]
    assert (await machine.import_by_shell(feature("Other", other), options=("--by", operator)))[0] == 0
    async with machine.database.connection() as db:
        rows = await db.fetch(
            "SELECT subject_id, actor_id, action, data FROM audit_log WHERE subject_id = ANY ($1)",
            [str(one), str(other)],
        )
    entries = {
        UUID(row["subject_id"]): (row["actor_id"], row["action"], json.loads(row["data"])) for row in rows
    }
    data = {"version": 1, "by": "command line"}
    assert entries == {one: (None, "community.created", data), other: (operator, "community.created", data)}


@pytest.mark.parametrize(
    ("arguments", "stdin", "word"),
    [
        (["import", "nowhere.geojson"], "", "nowhere.geojson"),
        (["import", "-"], "{", "not JSON"),
        (["import", "-"], "[" * 100_000, "not JSON"),
        (["import", "-"], "[]", "FeatureCollection"),
        (["import", "-"], json.dumps(square()), "FeatureCollection"),
        (["import", "-", "--by", "me"], "", "UUID"),
        (["export", "nowhere/out.geojson"], "", "nowhere/out.geojson"),
    ],
)
async def test_invalid_input_is_refused_with_the_reason(
    machine: FenceMachine, arguments: list[str], stdin: str, word: str
) -> None:
    code, output, errors = await machine.run(*arguments, stdin=stdin)
    assert (code, output) == (2, "")
    assert word in errors
    assert "Traceback" not in errors


async def test_missing_database_is_reported_with_a_remedy(machine: FenceMachine) -> None:
    machine.url = ""
    for command in (["import", EXAMPLE], ["export"]):
        code, _, errors = await machine.run(*command)
        assert (code, "catraca up" in errors) == (2, True)
    machine.url = "postgresql://catraca:hush@127.0.0.1:1/catraca"
    code, _, errors = await machine.run("import", EXAMPLE)
    assert (code, "127.0.0.1:1" in errors, "hush" in errors) == (1, True, False)


@settings(
    max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(fence=valid_fences())
async def test_any_valid_fence_survives_export_and_import(
    machine: FenceMachine, fence: dict[str, Any]
) -> None:
    """A fence keeps its points and its version when it is created, exported and imported."""
    own = CommunityId(uuid4())
    kept = check_fence(fence, language="en")
    async with machine.database.transaction() as db:
        await create_community(db, own, Rules(name="Vila"), kept, by=None)
        found = await get_community(db, own)
        assert found is not None
        assert found[1] == kept
        written = collection_of(await all_communities(db))
        read = read_features(features_of("it", written.encode()), lambda: None)
        assert read.faults == []
        outcomes = await import_communities(db, read.drafts, by=None, dry_run=False, on_each=lambda: None)
        assert set(outcomes) == {ImportResult("unchanged", 1)}
        assert own in {one.id for one in read.drafts}
        assert await get_community(db, own) == found


async def test_fence_stored_in_the_other_direction_is_unchanged(machine: FenceMachine) -> None:
    """Inserted without `check_fence`."""
    fence = square(*somewhere())
    fence["coordinates"][0].reverse()
    async with machine.database.transaction() as db:
        await create_community(db, CommunityId(uuid4()), Rules(name="Vila"), json.dumps(fence), by=None)
    async with machine.database.connection() as db:
        written = collection_of(await all_communities(db))
    assert await machine.import_directly(*features_of("it", written.encode())) == ["unchanged"]


async def test_thousand_communities_are_imported(machine: FenceMachine) -> None:
    count = 1000
    lines = [feature(f"Vila {n}", geometry=square(-20, -40 + n / 1000, size=0.0005)) for n in range(count)]
    code, output, _ = await machine.import_by_shell(*lines)
    assert (code, output.splitlines()[-1]) == (0, f"{count:,} created, 0 changed, 0 unchanged.")
    assert f"... and {count - 50:,} more" in output
    async with machine.database.connection() as db:
        index = await communities.Fences().current(db)
    assert len(index) == count
