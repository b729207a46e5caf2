"""What trains on products: their attributes and the table of them."""
