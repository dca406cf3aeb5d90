"""The repeated duties of roles, one file each. Every agent is safe to run in many processes at once."""
