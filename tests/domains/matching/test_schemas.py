"""What the documentation shows is what there is."""

from typing import Any

from catraca.domains.matching.explain.schemas import TimelineOut


def test_the_documented_example_is_one() -> None:
    extra: Any = TimelineOut.model_config["json_schema_extra"]
    (example,) = extra["examples"]
    assert TimelineOut.model_validate(example).model_dump(mode="json") == example
