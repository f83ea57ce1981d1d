"""The tags of this program: the only code that parses them."""
