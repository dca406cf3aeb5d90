"""What people's verbs refuse."""

from catraca.platform.errors import Refusal


class CredentialsInvalid(Refusal):
    """Unknown e-mail, wrong password, no password, erased: one answer, so that none can be told apart."""

    code = "credentials_invalid"
    status = 401


class PasswordLoginOff(Refusal):
    """An identity provider signs people in here; Catraca hands out no tokens of its own."""

    code = "password_login_off"
    status = 404


class PasswordLinkInvalid(Refusal):
    """Unknown, used or expired: whoever holds a dead link needs a new one in every case."""

    code = "password_link_invalid"
    status = 404


class PasswordIsEmail(Refusal):
    code = "password_is_email"
    status = 422


class DriverRoleStays(Refusal):
    """Rides will name their drivers for ever: whoever should not drive any more is suspended."""

    code = "driver_role_stays"
    status = 409


class EmailTaken(Refusal):
    code = "email_taken"
    status = 409


class HomeCommunityUnknown(Refusal):
    code = "home_community_unknown"
    status = 422
