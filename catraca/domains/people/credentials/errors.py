"""Refusals about passwords."""

from catraca.platform.errors import Refusal


class CredentialsInvalid(Refusal):
    """Unknown e-mail, wrong password, no password or erased user: one answer for all, so none is revealed."""

    code = "credentials_invalid"
    status = 401


class PasswordLoginOff(Refusal):
    """An identity provider issues the tokens here; Catraca issues none."""

    code = "password_login_off"
    status = 404


class PasswordLinkInvalid(Refusal):
    """The link is unknown, used, expired or revoked; in each case a new link is needed."""

    code = "password_link_invalid"
    status = 404


class PasswordIsEmail(Refusal):
    code = "password_is_email"
    status = 422
