"""Losses: pure functions from tensors to a scalar, each in a file that holds its equation.

What they share: vectors are rows of a float tensor (n, d), of any length, with gradients; who is whose synonym is given
by integer labels or boolean masks, never by lists of pairs; the result is a mean over anchors. They compute in float32
(float64 if so given) whatever autocast is on around them, know nothing of terminologies or training, and draw no
random numbers.
"""
