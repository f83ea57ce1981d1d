"""What people read: tables, lists and drawings.  Loaded only when somebody asks for them."""
