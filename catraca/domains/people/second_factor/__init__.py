"""The second factor of a sign-in: codes from an app (TOTP), and recovery codes."""
