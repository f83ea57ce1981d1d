"""Full re-placement of a cluster by the rules of Pacemaker."""
