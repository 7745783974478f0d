"""The attack lab: every attack that we know, measured without and with its defence.

One file per attack, ``a00_…`` to ``a19_…``, in ``counting``, ``linking`` and ``poisoning``; A20 and on, which attack
the rules of two relays, are in ``relayed``. Start at ``attack.Attack`` (what an attack is), ``views.View`` (what its
attacker may look at), ``registry.attacks`` (all of them) and ``attack.measure_all``.
"""
