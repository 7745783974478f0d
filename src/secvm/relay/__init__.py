"""The relay: knows who, not what. It moves sealed bytes and adds cover to them; nothing of one person is here.

- ``main.RelayService``: the process, put together from ``settings.RelayServiceSettings``.
- ``server.FetchDoors``, ``gateway.GatewayClient``: fetches, on their way to the coordinator.
- ``admission``, ``store``, ``deposits``: packages of plain experiments, until their epoch is over.
- ``role.Role`` with ``batches``, ``entry`` and ``mix``: rounds of two relays, and the cover that each adds.
"""
