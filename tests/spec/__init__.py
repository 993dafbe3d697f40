"""The formal specification (docs/spec), checked: by TLC, against the code's names, and against what
the simulator does.
"""
