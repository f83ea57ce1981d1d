"""Parse the tags of this program; no other code parses them."""
