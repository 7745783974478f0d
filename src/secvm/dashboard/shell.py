"""The page's own files: one shell for all its addresses, scripts, styles; all of them in memory."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from secvm.dashboard.answers import takes_gzip
from secvm.pages.assets import Asset, Assets

#: What every address of the page is answered with.
PAGE = "shell.html"
_ICON = "icon.svg"
_FOR_EVER = "public, max-age=31536000, immutable"


class Shell:
    """Gives a browser what the page is made of."""

    def __init__(self, assets: Assets) -> None:
        self._assets = assets

    def page(self, request: Request) -> Response:
        """The shell."""
        return _given(request, self._assets[PAGE])

    async def static(self, request: Request) -> Response:
        """A file by its name."""
        found = self._assets.get(request.path_params["name"])
        if found is None or found.name == PAGE:
            raise HTTPException(404)
        return _given(request, found)

    async def icon(self, request: Request) -> Response:
        """What browsers ask for unasked."""
        found = self._assets.get(_ICON)
        return Response(status_code=204) if found is None else _given(request, found)


def _given(request: Request, asset: Asset) -> Response:
    tag = f'"{asset.digest}"'
    # Under its digest it never changes; otherwise a browser asks whether it has.
    lasting = request.query_params.get("v") == asset.digest
    headers = {"etag": tag, "cache-control": _FOR_EVER if lasting else "no-cache", "vary": "accept-encoding"}
    if tag in [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers=headers)
    content = asset.content
    if takes_gzip(request) and len(asset.gzipped) < len(content):
        content, headers["content-encoding"] = asset.gzipped, "gzip"
    return Response(content, media_type=asset.media_type, headers=headers)
