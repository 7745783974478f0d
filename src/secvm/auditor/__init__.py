"""The auditor: replays an experiment from outside, from a coordinator's public files alone.

``audit.audit_files`` gives the report. Anybody can be one: it needs no key, no account and nobody's leave.
"""
