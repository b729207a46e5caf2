"""`python -m alphita`, as torchrun starts it."""

from alphita.cli import main

if __name__ == "__main__":
    main()
