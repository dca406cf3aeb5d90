"""The documented example of a timeline is a valid timeline."""

from typing import Any

from catraca.domains.matching.explain.schemas import TimelineOut


def test_documented_timeline_example_is_valid() -> None:
    extra: Any = TimelineOut.model_config["json_schema_extra"]
    (example,) = extra["examples"]
    assert TimelineOut.model_validate(example).model_dump(mode="json") == example
