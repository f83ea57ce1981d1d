"""Test the HTML pages: linked pages in a folder, their size, and the pictures of clusters."""
