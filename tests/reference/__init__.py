"""The papers' equations as naive NumPy float64 loops, in the papers' symbols: what the fast code is compared with."""
