"""`make bench`: what the figures in the docs are, measured on this machine."""

from . import rendering, startup

rendering.main()
startup.main()
