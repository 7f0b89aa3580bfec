"""`python -m lmcells` is the command `lmcells`."""

import sys

from lmcells.cli.main import main

sys.exit(main())
