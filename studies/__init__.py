"""The second distribution; a package so that its tests can share helpers as ``studies.tests``."""
