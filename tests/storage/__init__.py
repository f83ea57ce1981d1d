"""Storage pools: who reaches them, what is placed in them, what a failure asks of them."""
