"""`python -m proportio` is the command `proportio`."""

from proportio.cli import main

if __name__ == "__main__":
    main()
