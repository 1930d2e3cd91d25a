"""`make bench`: what the figures in the docs are, measured on this machine."""

from . import fleet, gateway, local, operator, rendering, startup

rendering.main()
startup.main()
local.main()
gateway.main()
operator.main()
fleet.main()
