"""`python -m edutorch.distributed.run`."""

from . import main

main()
