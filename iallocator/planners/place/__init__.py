"""A whole cluster placed anew by Pacemaker's rules."""
