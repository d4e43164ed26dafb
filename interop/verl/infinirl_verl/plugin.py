"""The entry point: verl imports it, in every process, and swallows what goes wrong.
So it says so itself; `python -m infinirl_verl check` tells before a run."""

import sys

try:
    from . import credit

    credit.register()
    from . import trainer  # noqa: F401  registers the trainers
except Exception as error:
    print(f"infinirl_verl is not loaded: {type(error).__name__}: {error}: python -m infinirl_verl check tells more", file=sys.stderr)
    raise
