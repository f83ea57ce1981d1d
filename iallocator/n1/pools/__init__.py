"""Global N+1 where storage pools say who may go where."""
