"""The parts that a group member is made of. Calls run downwards: a part calls only parts that its
constructor was given, and tells the part above by what it returns.
"""
