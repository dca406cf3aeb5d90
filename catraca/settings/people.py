"""Accounts, passwords and the approval of drivers."""

from datetime import timedelta
from typing import Literal

from pydantic import Field

from catraca.settings.values import Duration, Group, Rate


class PeopleSettings(Group):
    token_ttl: Duration = Field(
        default=timedelta(hours=1), description="Lifetime of tokens from a password login."
    )
    password_link_ttl: Duration = Field(
        default=timedelta(hours=24), description="Lifetime of a one-use password link."
    )
    driver_approval: Literal["automatic", "required"] = Field(
        default="automatic", description="Whether an operator must approve a driver before the first ride."
    )
    rate_limit_sign_in_account: Rate = Field(
        default="10/minute",
        description="Password logins tried for one e-mail address from network addresses unknown to it.",
    )
    rate_limit_sign_in_address: Rate = Field(
        default="30/minute", description="Password logins tried from one network address."
    )
    rate_limit_email_change: Rate = Field(
        default="5/day", description="Changes of e-mail address of one user, and to one address."
    )
