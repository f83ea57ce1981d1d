"""What must hold for every document, generated or drawn."""
