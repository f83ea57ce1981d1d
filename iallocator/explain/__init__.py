"""What people read: explanations and tables.  Loaded only when somebody asks for them."""
