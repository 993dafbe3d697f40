"""A recorded coordinator again: every decision, its reason, and what other options would have
done.
"""
