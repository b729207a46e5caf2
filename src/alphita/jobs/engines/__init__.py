"""One job on many processes and machines: shards of it as tasks, and thin adapters to the engines that run them."""
