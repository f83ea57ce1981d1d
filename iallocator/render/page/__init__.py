"""Pages for a browser: one file without scripts or fonts from elsewhere, made of templates.

A page is a `view.PageView`: sections of rows and cells, as text and numbers.  The functions
here decide what it shows; the templates only lay it out, and escape every text.
"""
