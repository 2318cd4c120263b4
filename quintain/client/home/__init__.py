"""Home directory of the platform: master file, locks, tokens, logins."""
