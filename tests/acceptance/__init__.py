"""What a newcomer does wrong and what the world does to him, seen from outside: real processes,
their last words, their exit status, and what is stored afterwards.
"""
