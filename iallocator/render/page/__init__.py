"""Pages for a browser: one file without scripts or fonts from elsewhere, made of templates.

A page is a `view.PageView`: sections of rows and cells, as text and numbers.  What there is
to say is worked out here; the templates only lay it out, and escape every text.
"""
