"""Experiments of an operator: specification, document, history, public status, and the operator's API."""
