"""Where nothing fits: which node came closest, and what it lacks.

`roles` makes of a query to an evaluator what is tested of which node, `search` looks for
the nearest placement among them, `miss` asks a rejected request's questions once more.
"""
