"""Expansion over HTTP, with a page to try it.

from lmcells.service.app import create_app
app = create_app(expander, ServiceSettings(max_concurrency=64))   # an ASGI application
"""

from lmcells.service.settings import ServiceSettings

__all__ = ["ServiceSettings"]
