"""Request bodies of e-mail changes."""

from pydantic import Field

from catraca.domains.people.email_changes.model import CODE_DIGITS
from catraca.platform.forms import Body, examples


class EmailCodeIn(Body):
    model_config = examples({"code": "04276391"})

    code: str = Field(
        pattern=rf"^[0-9]{{{CODE_DIGITS}}}$", description="The code of the letter to the new address."
    )
