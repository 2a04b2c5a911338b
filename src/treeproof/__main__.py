"""`python -m treeproof` is the command line."""

from treeproof.cli import main

if __name__ == "__main__":
    main()
