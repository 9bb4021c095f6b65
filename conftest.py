"""Settings for all tests, those of the library and those of the studies."""

import signal

# A job in the background of a shell starts with Ctrl-C ignored, and so would every process that a test
# starts: the tests of Ctrl-C would wait in vain. With Python's own handler here, children have the default.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
