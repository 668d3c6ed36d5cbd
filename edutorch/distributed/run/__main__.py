"""`python -m edutorch.distributed.run`."""

from . import main

if __name__ == "__main__":
    main()
