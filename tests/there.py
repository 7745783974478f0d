"""What a test knows to be there."""

from __future__ import annotations

from typing import TypeVar

Value = TypeVar("Value")


def there(value: Value | None) -> Value:
    """The value; that it is None is the test's failure."""
    assert value is not None
    return value
