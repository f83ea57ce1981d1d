"""Pages for a browser: one file, made by templates, which loads no script or font.

A page is a `view.PageView`: sections of rows and cells, as text and numbers. The functions in this
package decide the contents of a page. The templates lay them out, and escape every text.
"""
