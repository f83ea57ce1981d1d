"""What musts, shoulds, tags and pools mean for many moves at once."""
