"""``python -m bayesvm`` is the command ``bayesvm``."""

from bayesvm._cli import main

if __name__ == "__main__":
    main()
