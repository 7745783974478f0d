"""The browser and the federation of ``tests/system/browser``, for longer tests of pages."""

from tests.system.browser.conftest import browser, showcase, window

__all__ = ["browser", "showcase", "window"]
