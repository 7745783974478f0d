"""The attack lab: every attack that we know, measured without and with its defence.

One file per attack, ``a00_…`` to ``a20_…``. Start at ``attack.Attack`` (what an attack is), ``views.View`` (what its
attacker may look at), ``registry.attacks`` (all of them) and ``report.measure_all``.
"""
