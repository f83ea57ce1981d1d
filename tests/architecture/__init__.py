"""How the house is built: who may import whom, what a start costs, what the README must name."""
