"""The auditor: replays an experiment from outside, from a coordinator's public files alone.

``audit.audit_files`` gives the report. Anybody can be one: it needs no key, no account and nobody's leave.

- ``files``: where the files come from; ``subject.Subject``: one experiment under audit.
- ``replay``, ``steps``: rounds of experiments with one relay; ``relayed``: those with two, counted again.
- ``whole_log``, ``log_check``, ``salt_check``: the coordinator's log, the witnesses, the salt.
- ``findings``, ``report``, ``explanation``: what was found, for people and programs.
"""
