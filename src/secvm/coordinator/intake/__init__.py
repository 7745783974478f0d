"""How packages of plain experiments come in: requests, ingest, and the gateway that opens capsules."""
