"""`python -m derender`: the command line, where the script is not on the path."""

from derender.cli import main

if __name__ == "__main__":
    main()
