"""From wanted placements to what Ganeti has to do, in order."""
