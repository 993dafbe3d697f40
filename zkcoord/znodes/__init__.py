"""Where a path is built or parsed and where bytes become values: `paths`, `codec`, `patterns`.
Nothing past this package sees bytes, JSON or a path's parts.
"""
