"""Show documents as text, pages for a browser, and drawings."""
