"""The docs as a site, and what the docs say done: `make docs`.

python -m tests.docs               build/site, and everything that is checked of it
python -m tests.docs --external    which links to other hosts lead nowhere (a report)
"""
