"""Expansion over HTTP, and a page to try it on.

from lmcells.service.app import create_app
app = create_app(expander, ServiceSettings(max_concurrency=64))   # an ASGI application
"""

from lmcells.service.settings import ServiceSettings

__all__ = ["ServiceSettings"]
