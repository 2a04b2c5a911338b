"""`python -m treeproof` is the command line."""

from treeproof.cli.main import main

if __name__ == "__main__":
    main()
