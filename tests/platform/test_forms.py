"""Shared request bodies, fields and pages."""

import math
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated, Any
from uuid import UUID, uuid4

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from catraca.platform.clock import END_OF_MOMENTS, FIRST_MOMENT
from catraca.platform.forms import Body, Moment, Name, Page, each_once, examples, left_out, split_page
from tests.test_tidy import import_everything


class RowOut(BaseModel):
    id: int


class RowPage(Page[RowOut, int]):
    model_config = examples({"items": [{"id": 1}], "next": None})


class Change(Body):
    model_config = examples({"name": "Ana"})

    name: Name = left_out()


def page_of(rows: list[int], *, limit: int) -> RowPage:
    return RowPage.split(rows, limit=limit, item=lambda row: RowOut(id=row), cursor=lambda row: row)


def test_page_with_an_extra_row_has_a_cursor():
    page = page_of([1, 2, 3], limit=2)
    assert page.model_dump() == {"items": [{"id": 1}, {"id": 2}], "next": 2}


@pytest.mark.parametrize("rows", [[], [1], [1, 2]])
def test_last_page_has_no_cursor(rows: list[int]):
    page = page_of(rows, limit=2)
    assert page.model_dump() == {"items": [{"id": row} for row in rows], "next": None}
    assert split_page(rows, limit=2, cursor=str) == (rows, None)


def test_page_schema_has_the_types_of_its_fields():
    schema = RowPage.model_json_schema()
    assert schema["title"] == "RowPage"
    assert schema["required"] == ["items", "next"]
    assert schema["properties"]["items"]["items"] == {"$ref": "#/$defs/RowOut"}
    assert schema["properties"]["next"]["anyOf"] == [{"type": "integer"}, {"type": "null"}]
    assert schema["properties"]["next"]["description"]
    assert "description" not in schema


def test_body_with_examples_refuses_unknown_fields():
    with pytest.raises(ValidationError) as refused:
        Change.model_validate({"surname": "Moura"})
    assert refused.value.errors()[0]["type"] == "extra_forbidden"


def test_left_out_field_may_be_missing_but_not_null():
    assert Change.model_validate({}).model_fields_set == set()
    with pytest.raises(ValidationError):
        Change.model_validate({"name": None})


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "text_blank"),
        (" \u200b ", "text_blank"),
        ("a" * 121, "text_too_long"),
        ("a\nb", "text_unprintable"),
    ],
)
def test_malformed_name_is_refused_with_a_code(text: str, code: str):
    with pytest.raises(ValidationError) as refused:
        Change(name=text)
    assert refused.value.errors()[0]["type"] == code


def test_name_is_trimmed_and_composed():
    assert Change(name="  Jose\u0301 ").name == "Jos\u00e9"


def test_repeated_ids_are_refused():
    one, other = uuid4(), uuid4()
    assert each_once([one, other]) == [one, other]
    with pytest.raises(Exception, match="repeated"):
        each_once([one, other, one])


def test_page_cursor_keeps_its_type():
    class IdPage(Page[RowOut, UUID]): ...

    own = uuid4()
    assert TypeAdapter(IdPage).validate_python({"items": [], "next": str(own)}).next == own


OFFSETS = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
YEARS = st.sampled_from([1969, 1970, 1971, 2031, 2198, 2199, 2200, 2201])
EDGES = st.builds(datetime, YEARS, st.sampled_from([1, 12]), st.sampled_from([1, 31]), st.integers(0, 23))


@given(EDGES, OFFSETS)
@example(datetime(2199, 12, 31, 20, tzinfo=UTC), timezone(timedelta(hours=-4)))
@example(datetime(1970, 1, 1, 3, tzinfo=UTC), timezone(timedelta(hours=4)))
def test_moments_from_1970_to_2199_are_accepted_in_any_offset(moment: datetime, offset: timezone):
    moment = moment.replace(tzinfo=offset)
    assert accepts(Moment, moment.isoformat()) == (FIRST_MOMENT <= moment < END_OF_MOMENTS)


@pytest.mark.parametrize("value", [1_900_000_000, 1.9e9, "1900000000", "1.9e9", " 19 ", "nan", "-inf", "1_0"])
def test_moment_must_not_be_a_number(value: object):
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(Moment).validate_python(value)
    assert [error["type"] for error in refused.value.errors()] == ["datetime_parsing"]


def bodies(kind: type[Body] = Body) -> set[type[Body]]:
    return {kind, *(below for one in kind.__subclasses__() for below in bodies(one))}


def accepts(kind: Any, value: object) -> bool:
    try:
        TypeAdapter(kind).validate_python(value)
    except ValidationError:
        return False
    return True


def test_numbers_that_are_not_finite_are_refused():
    """In every body and query, whatever parsed it."""
    import_everything()
    fields = {
        f"{body.__name__}.{name}": Annotated[field.annotation, Field(), *field.metadata]
        for body in bodies()
        for name, field in body.model_fields.items()
        if re.search(r"\bfloat\b", str(field.annotation))
    }
    assert len(fields) > 10
    values = (math.nan, math.inf, -math.inf)
    assert [name for name, kind in fields.items() if any(accepts(kind, value) for value in values)] == []
