"""How sure an answer is, and what of the answers may be accepted unseen: the statistics, without the answers."""
