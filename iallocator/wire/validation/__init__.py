"""What is wrong with a document, in words that name the place; loaded only for bad ones."""
