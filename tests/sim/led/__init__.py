"""Client-led groups in the simulator: real coordinators, gateways' parts, clients that lead."""
